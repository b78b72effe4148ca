#include "eval/measure/paired.h"

#include <algorithm>
#include <cassert>
#include <chrono>

#include "eval/statistics.h"
#include "eval/text.h"

namespace kvasir::eval {
namespace {

// A decoded token costs about as much as four of a prompt, and both cost more the deeper they are.
constexpr double kDecodeUnits = 4;
constexpr double kDepthOfDoubleCost = 4000;

double units(int32_t tokens, int32_t depth, bool is_prefill) {
  const double each = (is_prefill ? 1 : kDecodeUnits) * (1 + depth / kDepthOfDoubleCost);
  return each * tokens;
}

// Reads a prompt chunk in one sequence.
Result<void> read_chunk(Session& session, std::span<const llama_token> tokens, int32_t depth,
                        Outputs last_outputs) {
  const auto step = static_cast<size_t>(session.n_batch());
  for (size_t i = 0; i < tokens.size(); i += step) {
    const auto part = tokens.subspan(i, std::min(step, tokens.size() - i));
    const bool last = i + part.size() == tokens.size();
    auto done =
        session.decode(part, depth + static_cast<int32_t>(i), last ? last_outputs : Outputs::kNone);
    if (!done) return done;
  }
  return {};
}

// One kind of work at one depth.
struct Work {
  std::span<const llama_token> tokens;
  int32_t depth;
  bool is_prefill;
  int32_t batch;

  double units() const {
    return batch * eval::units(static_cast<int32_t>(tokens.size()), depth, is_prefill);
  }
};

struct Timed {
  double seconds = 0;
  int64_t bytes = 0;
};

// One side of a pair; `evicts` as PairedPlan::b_evicts.
struct Side {
  Session& session;
  const ReadBytes& read_bytes;
  bool evicts;
};

Result<Timed> time_one(const Side& side, const Work& work, Outputs prompt_outputs) {
  Session& session = side.session;
  const auto start = std::chrono::steady_clock::now();
  auto done = work.is_prefill ? read_chunk(session, work.tokens, work.depth, prompt_outputs)
                              : generate(session, work.tokens, work.batch);
  if (!done) return Error{done.error()};
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  Timed timed{seconds.count(), 0};
  if (side.read_bytes && !work.is_prefill) timed.bytes = side.read_bytes(session, work.batch);
  if (side.evicts && !work.is_prefill && work.depth > 0) return timed;
  for (int32_t s = 0; s < work.batch; ++s) {
    auto removed = session.truncate(work.depth, s);
    if (!removed) return Error{removed.error()};
  }
  return timed;
}

Result<PairedSamples> sample(Session& a, Session& b, const Work& work, const PairedPlan& plan,
                             const OnProgress& progress) {
  PairedSamples samples{work.depth, work.is_prefill, static_cast<int32_t>(work.tokens.size()), {},
                        {},         work.batch};
  const std::string name = test_name(samples);
  const Side side_a{a, plan.a_bytes, false};
  const Side side_b{b, plan.b_bytes, plan.b_evicts};
  const Outputs outputs = plan.b_evicts ? Outputs::kNone : Outputs::kLast;
  for (int32_t repetition = -1; repetition < plan.repetitions; ++repetition) {  // -1 warms up
    progress(repetition < 0 ? 0 : 2 * work.units(), name);
    Timed of_a, of_b;
    for (const bool is_a : {repetition % 2 == 0, repetition % 2 != 0}) {
      auto timed = time_one(is_a ? side_a : side_b, work, outputs);
      if (!timed) return Error{timed.error()};
      (is_a ? of_a : of_b) = timed.value();
    }
    if (repetition < 0) continue;
    samples.a.push_back(of_a.seconds);
    samples.b.push_back(of_b.seconds);
    samples.a_bytes = of_a.bytes;
    samples.b_bytes = of_b.bytes;
  }
  progress(2 * work.units(), name);
  return samples;
}

// Fills positions [from, depth) of one sequence.
Result<void> fill(Session& session, std::span<const llama_token> tokens, int32_t from,
                  int32_t depth, llama_seq_id sequence, const OnProgress& progress) {
  const std::string name = "filling to d" + std::to_string(depth);
  progress(0, name);
  for (int32_t at = from; at < depth; at += session.n_batch()) {
    const int32_t count = std::min(session.n_batch(), depth - at);
    auto done = session.decode(tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(count)),
                               at, Outputs::kNone, sequence);
    if (!done) return done;
    progress(units(count, depth, true), name);
  }
  return {};
}

// Brings the sequences behind the first to the depth. What they held is forgotten.
Result<void> fill_others(Session& session, std::span<const llama_token> tokens, int32_t depth,
                         const PairedPlan& plan, const OnProgress& progress) {
  for (llama_seq_id s = 1; s < plan.n_sequences(); ++s) {
    auto empty = session.truncate(0, s);
    if (!empty) return empty;
    if (depth == 0) continue;
    if (plan.copies) {
      llama_memory_seq_cp(session.memory(), 0, s, -1, -1);
      continue;
    }
    auto filled = fill(session, tokens, 0, depth, s, progress);
    if (!filled) return filled;
  }
  return {};
}

// Units of filling one side for the test at one depth, `from` tokens being there already.
double fill_units(const PairedPlan& plan, int32_t from, int32_t depth) {
  const int32_t others = plan.copies ? 0 : plan.n_sequences() - 1;
  return units(depth - from, depth, true) + others * units(depth, depth, true);
}

// What is measured at one depth, that of one sequence first.
std::vector<Work> works_at(const PairedPlan& plan, std::span<const llama_token> tokens,
                           int32_t depth) {
  const auto part = [&](int32_t count) {
    return tokens.subspan(static_cast<size_t>(depth), static_cast<size_t>(count));
  };
  std::vector<Work> works;
  if (plan.prefill > 0) works.push_back({part(plan.prefill), depth, true, 1});
  for (const int32_t batch : plan.batches) {
    if (plan.decode > 0) works.push_back({part(plan.decode), depth, false, batch});
  }
  return works;
}

}  // namespace

Result<void> generate(Session& session, std::span<const llama_token> tokens, int32_t batch) {
  std::vector<BatchToken> step(static_cast<size_t>(batch));
  std::vector<llama_pos> next;
  next.reserve(step.size());
  for (int32_t s = 0; s < batch; ++s) {
    next.push_back(llama_memory_seq_pos_max(session.memory(), s) + 1);
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    for (size_t s = 0; s < step.size(); ++s) {
      step[s] = {tokens[(i + s) % tokens.size()], next[s]++, static_cast<llama_seq_id>(s), true};
    }
    auto done = session.decode(step);
    if (!done) return done;
  }
  return {};
}

bool is_same_kind(const PairedSamples& x, const PairedSamples& y) {
  return x.is_prefill == y.is_prefill && x.batch == y.batch;
}

std::string test_name(const PairedSamples& samples) {
  std::string name = (samples.is_prefill ? "pp" : "tg") + std::to_string(samples.tokens);
  if (samples.batch > 1) name += " x" + std::to_string(samples.batch);
  return name + " @ d" + std::to_string(samples.depth);
}

void append_samples(std::vector<PairedSamples>& all, const std::vector<PairedSamples>& round) {
  if (all.empty()) {
    all = round;
    return;
  }
  assert(all.size() == round.size());
  for (size_t i = 0; i < all.size(); ++i) {
    assert(all[i].depth == round[i].depth && is_same_kind(all[i], round[i]));
    all[i].a.insert(all[i].a.end(), round[i].a.begin(), round[i].a.end());
    all[i].b.insert(all[i].b.end(), round[i].b.begin(), round[i].b.end());
  }
}

double tokens_per_second(const PairedSamples& samples, const std::vector<double>& seconds) {
  return samples.batch * samples.tokens / median(seconds);
}

Ratio speed_ratio(const PairedSamples& samples) {
  std::vector<double> ratios;
  for (size_t i = 0; i < samples.a.size(); ++i) ratios.push_back(samples.a[i] / samples.b[i]);
  const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  return {median(ratios), *low, *high};
}

int32_t PairedPlan::n_positions() const {
  const auto n_batches = static_cast<int32_t>(batches.size());
  const int32_t generations = b_evicts ? n_batches * (repetitions + 1) : 1;
  return depths.back() + std::max(prefill, generations * decode);
}

double plan_units(const PairedPlan& plan) {
  double total = 0;
  int32_t filled = 0;
  for (const int32_t depth : plan.depths) {
    total += 2 * fill_units(plan, filled, depth);
    filled = plan.refill ? 0 : depth;
    double each = units(plan.prefill, depth, true);
    for (const int32_t batch : plan.batches) each += batch * units(plan.decode, depth, false);
    total += 2 * (plan.repetitions + 1) * each;
  }
  return std::max(total, 1.0);
}

Result<std::vector<PairedSamples>> run_paired(Session& a, Session& b, const PairedPlan& plan,
                                              const OnProgress& progress) {
  const int32_t longest = plan.depths.back() + std::max(plan.prefill, plan.decode);
  const std::vector<llama_token> all_tokens = random_tokens(longest, a.n_vocab(), plan.seed);
  const std::span<const llama_token> tokens(all_tokens);
  std::vector<PairedSamples> all;
  int32_t filled = 0;
  for (const int32_t depth : plan.depths) {
    for (Session* session : {&a, &b}) {
      if (plan.refill) llama_memory_clear(session->memory(), false);
      auto done = fill(*session, tokens, plan.refill ? 0 : filled, depth, 0, progress);
      if (!done) return Error{done.error()};
    }
    filled = depth;
    bool others_filled = false;
    for (const Work& work : works_at(plan, tokens, depth)) {
      for (Session* session : {&a, &b}) {
        if (work.batch == 1 || others_filled) continue;
        auto done = fill_others(*session, tokens, depth, plan, progress);
        if (!done) return Error{done.error()};
      }
      others_filled = others_filled || work.batch > 1;
      auto samples = sample(a, b, work, plan, progress);
      if (!samples) return Error{samples.error()};
      all.push_back(std::move(samples.value()));
    }
  }
  return all;
}

}  // namespace kvasir::eval
