#include "eval/tasks/fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvasir::eval {
namespace {

constexpr double kNear = 0.995;  // good enough to stop the search
constexpr double kLeast = 0.98;
constexpr double kMost = 1.02;
constexpr int32_t kProbes = 16;
constexpr int32_t kGuesses = 10;  // probes by interpolation; by halves after that
constexpr double kAim = 0.998;    // a little short: an answer below the length ends the search

// A number of units with the sample and its tokens.
struct Probe {
  int64_t units = 0;
  int32_t tokens = 0;
  Sample sample;
};

class Search {
 public:
  Search(const FitPlan& plan, const CountTokens& count_tokens, const BuildSample& build)
      : plan_(plan), count_tokens_(count_tokens), build_(build) {}

  Result<Sample> run();

 private:
  Probe probe(int64_t units) const;
  int64_t next_units(int32_t probes) const;
  void take(Probe next);
  bool done() const;
  Result<Sample> finish();

  const FitPlan& plan_;
  const CountTokens& count_tokens_;
  const BuildSample& build_;
  int32_t outside_ = 0;          // tokens of instructions and question
  Probe low_;                    // the largest known that is not too long
  Probe high_;                   // the smallest known that is
  bool has_high_ = false;        // else nothing that is too long is known
  double tokens_per_unit_ = 64;  // a high guess, so that the first step is a short one
  double low_gap_ = 0;           // tokens from low_ to the aim, and from the aim to high_
  double high_gap_ = 0;
  bool last_was_low_ = true;
};

Probe Search::probe(int64_t units) const {
  Probe result{units, 0, build_(units)};
  result.tokens = outside_ + count_tokens_(result.sample.context);
  return result;
}

// Requires: low_ is known and not the answer yet. The result lies between low_ and high_.
int64_t Search::next_units(int32_t probes) const {
  const int64_t end = has_high_ ? high_.units : plan_.most + 1;
  const auto span = static_cast<double>(end - low_.units);
  double step = span / 2;
  if (!has_high_) {
    step = low_gap_ / std::max(tokens_per_unit_, 0.01);  // go on at the pace seen so far
  } else if (probes < kGuesses) {
    step = span * low_gap_ / (low_gap_ + high_gap_);
  }
  return std::clamp(low_.units + static_cast<int64_t>(std::min(step, span)), low_.units + 1,
                    end - 1);
}

// An end that stays where it is counts half from the second time on, so that the next probe comes
// closer to it (the Illinois rule).
void Search::take(Probe next) {
  tokens_per_unit_ =
      static_cast<double>(next.tokens - low_.tokens) / static_cast<double>(next.units - low_.units);
  const bool is_low = next.tokens <= plan_.length;
  const double gap = std::abs(kAim * plan_.length - next.tokens);
  (is_low ? low_gap_ : high_gap_) = gap;
  if (is_low == last_was_low_) (is_low ? high_gap_ : low_gap_) /= 2;
  last_was_low_ = is_low;
  has_high_ = has_high_ || !is_low;
  (is_low ? low_ : high_) = std::move(next);
}

bool Search::done() const {
  const int64_t end = has_high_ ? high_.units : plan_.most + 1;
  return low_.tokens >= kNear * plan_.length || low_.units + 1 >= end;
}

Result<Sample> Search::run() {
  low_.units = plan_.least;
  low_.sample = build_(plan_.least);
  low_.tokens = sample_tokens(low_.sample, count_tokens_);
  if (low_.tokens > plan_.length) {
    return Error{plan_.name + ": found length " + std::to_string(plan_.length) +
                 ", the smallest possible is " + std::to_string(low_.tokens) + " tokens"};
  }
  low_gap_ = std::max(kAim * plan_.length - low_.tokens, 0.0);
  outside_ = low_.tokens - count_tokens_(low_.sample.context);
  for (int32_t probes = 0; probes < kProbes && !done(); ++probes) {
    take(probe(next_units(probes)));
  }
  return finish();
}

Result<Sample> Search::finish() {
  const bool short_of = low_.tokens < kLeast * plan_.length;
  if (short_of && !has_high_) {
    return Error{plan_.name + ": found length " + std::to_string(plan_.length) +
                 ", but what it is made of ends after " + std::to_string(low_.tokens) + " tokens"};
  }
  const bool take_high = short_of && high_.tokens <= kMost * plan_.length &&
                         high_.tokens - plan_.length < plan_.length - low_.tokens;
  Probe& best = take_high ? high_ : low_;
  best.sample.tags["length"] = plan_.length;
  best.sample.tags["tokens"] = best.tokens;
  return std::move(best.sample);
}

}  // namespace

int32_t sample_tokens(const Sample& sample, const CountTokens& count_tokens) {
  int32_t tokens = count_tokens(sample.instructions) + count_tokens(sample.context);
  if (!sample.questions.empty()) tokens += count_tokens(sample.questions.front().text);
  return tokens;
}

Result<Sample> fit_sample(const FitPlan& plan, const CountTokens& count_tokens,
                          const BuildSample& build) {
  return Search(plan, count_tokens, build).run();
}

}  // namespace kvasir::eval
