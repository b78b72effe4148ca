#include "eval/statistics.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace kvasir::eval {

double quantile(std::span<const double> values, double q) {
  assert(!values.empty() && q >= 0 && q <= 1);
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double at = q * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

double median(std::span<const double> values) { return quantile(values, 0.5); }

RowSummary summarize(std::span<const float> logits) {
  assert(logits.size() >= 2);
  RowSummary row;
  float best = -INFINITY;
  float next = -INFINITY;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float x = logits[i];
    if (!std::isfinite(x)) row.finite = false;
    if (x > best) {
      next = best;
      row.second = row.top;
      best = x;
      row.top = static_cast<int32_t>(i);
    } else if (x > next) {
      next = x;
      row.second = static_cast<int32_t>(i);
    }
  }
  double sum = 0;
  for (const float x : logits) sum += static_cast<double>(std::exp(x - best));
  row.log_z = static_cast<double>(best) + std::log(sum);
  row.margin = static_cast<double>(best) - static_cast<double>(next);
  return row;
}

double kl_divergence(std::span<const float> a, const RowSummary& summary_a,
                     std::span<const float> b, const RowSummary& summary_b) {
  assert(a.size() == b.size());
  // sum p (a - b) - (log Za - log Zb); the differences are small numbers, so f32 terms are enough.
  const float log_z = static_cast<float>(summary_a.log_z);
  double weighted = 0;
  double mass = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double p = static_cast<double>(std::exp(a[i] - log_z));
    mass += p;
    weighted += p * (static_cast<double>(a[i]) - static_cast<double>(b[i]));
  }
  return weighted / mass - (summary_a.log_z - summary_b.log_z);
}

void Divergence::add(std::span<const float> a, const RowSummary& summary_a,
                     std::span<const float> b, const RowSummary& summary_b, int32_t next_token) {
  finite_ = finite_ && summary_a.finite && summary_b.finite;
  kl_.push_back(kl_divergence(a, summary_a, b, summary_b));
  if (summary_a.top == summary_b.top) {
    ++same_;
  } else {
    widest_flip_ = std::max({widest_flip_, summary_a.margin, summary_b.margin});
  }
  const size_t next = static_cast<size_t>(next_token);
  nll_a_ += summary_a.log_z - static_cast<double>(a[next]);
  nll_b_ += summary_b.log_z - static_cast<double>(b[next]);
}

double Divergence::kl_mean() const {
  double sum = 0;
  for (const double x : kl_) sum += x;
  return sum / static_cast<double>(kl_.size());
}

double Divergence::same_top() const {
  return static_cast<double>(same_) / static_cast<double>(kl_.size());
}

double Divergence::perplexity_a() const {
  return std::exp(nll_a_ / static_cast<double>(kl_.size()));
}

double Divergence::perplexity_b() const {
  return std::exp(nll_b_ / static_cast<double>(kl_.size()));
}

}  // namespace kvasir::eval
