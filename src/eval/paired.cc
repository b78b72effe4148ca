#include "eval/paired.h"

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

Result<double> time_one(Session& session, std::span<const llama_token> tokens, int32_t depth,
                        bool is_prefill) {
  const auto start = std::chrono::steady_clock::now();
  const size_t step = is_prefill ? static_cast<size_t>(session.n_batch()) : 1;
  for (size_t i = 0; i < tokens.size(); i += step) {
    const auto part = tokens.subspan(i, std::min(step, tokens.size() - i));
    const bool last = i + part.size() == tokens.size();
    auto done = session.decode(part, depth + static_cast<int32_t>(i),
                               last || !is_prefill ? Outputs::kLast : Outputs::kNone);
    if (!done) return Error{done.error()};
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  auto removed = session.truncate(depth);
  if (!removed) return Error{removed.error()};
  return seconds.count();
}

Result<PairedSamples> sample(Session& a, Session& b, std::span<const llama_token> tokens,
                             int32_t depth, bool is_prefill, int32_t repetitions,
                             const OnProgress& progress) {
  PairedSamples samples{depth, is_prefill, static_cast<int32_t>(tokens.size()), {}, {}};
  const std::string name =
      (is_prefill ? "pp" : "tg") + std::to_string(tokens.size()) + " @ d" + std::to_string(depth);
  for (int32_t repetition = -1; repetition < repetitions; ++repetition) {  // -1 warms up
    progress(repetition < 0 ? 0 : 2 * units(samples.tokens, depth, is_prefill), name);
    const bool swap = repetition % 2 != 0;
    auto first = time_one(swap ? b : a, tokens, depth, is_prefill);
    if (!first) return Error{first.error()};
    auto second = time_one(swap ? a : b, tokens, depth, is_prefill);
    if (!second) return Error{second.error()};
    if (repetition < 0) continue;
    samples.a.push_back(swap ? second.value() : first.value());
    samples.b.push_back(swap ? first.value() : second.value());
  }
  progress(2 * units(samples.tokens, depth, is_prefill), name);
  return samples;
}

}  // namespace

void append_samples(std::vector<PairedSamples>& all, const std::vector<PairedSamples>& round) {
  if (all.empty()) {
    all = round;
    return;
  }
  assert(all.size() == round.size());
  for (size_t i = 0; i < all.size(); ++i) {
    assert(all[i].depth == round[i].depth && all[i].is_prefill == round[i].is_prefill);
    all[i].a.insert(all[i].a.end(), round[i].a.begin(), round[i].a.end());
    all[i].b.insert(all[i].b.end(), round[i].b.begin(), round[i].b.end());
  }
}

double tokens_per_second(const PairedSamples& samples, const std::vector<double>& seconds) {
  return samples.tokens / median(seconds);
}

Ratio speed_ratio(const PairedSamples& samples) {
  std::vector<double> ratios;
  for (size_t i = 0; i < samples.a.size(); ++i) ratios.push_back(samples.a[i] / samples.b[i]);
  const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  return {median(ratios), *low, *high};
}

double plan_units(const PairedPlan& plan) {
  double total = 0;
  int32_t filled = 0;
  for (const int32_t depth : plan.depths) {
    total += 2 * units(depth - filled, depth, true);
    filled = plan.refill ? 0 : depth;
    total += 2 * (plan.repetitions + 1) *
             (units(plan.prefill, depth, true) + units(plan.decode, depth, false));
  }
  return std::max(total, 1.0);
}

Result<std::vector<PairedSamples>> run_paired(Session& a, Session& b, const PairedPlan& plan,
                                              const OnProgress& progress) {
  const int32_t longest = plan.depths.back() + std::max(plan.prefill, plan.decode);
  const auto tokens = random_tokens(longest, a.n_vocab(), plan.seed);
  const auto part = [&](int32_t from, int32_t count) {
    return std::span(tokens).subspan(static_cast<size_t>(from), static_cast<size_t>(count));
  };
  std::vector<PairedSamples> all;
  int32_t filled = 0;
  for (const int32_t depth : plan.depths) {
    for (Session* session : {&a, &b}) {
      if (plan.refill) llama_memory_clear(session->memory(), false);
      const int32_t from = plan.refill ? 0 : filled;
      progress(0, "filling to d" + std::to_string(depth));
      for (int32_t at = from; at < depth; at += session->n_batch()) {
        const int32_t count = std::min(session->n_batch(), depth - at);
        auto done = session->decode(part(at, count), at, Outputs::kNone);
        if (!done) return Error{done.error()};
        progress(units(count, depth, true), "filling to d" + std::to_string(depth));
      }
    }
    filled = depth;
    for (const bool is_prefill : {true, false}) {
      const int32_t count = is_prefill ? plan.prefill : plan.decode;
      if (count == 0) continue;
      auto samples =
          sample(a, b, part(depth, count), depth, is_prefill, plan.repetitions, progress);
      if (!samples) return Error{samples.error()};
      all.push_back(std::move(samples.value()));
    }
  }
  return all;
}

}  // namespace kvasir::eval
