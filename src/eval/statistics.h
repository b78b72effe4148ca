// Order statistics and the comparison of two next-token distributions.
//
// Knows numbers only: no model, no cache. All functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvasir::eval {

/// The q-quantile, 0 <= q <= 1, linear between neighbours. Requires: values is not empty.
double quantile(std::span<const double> values, double q);

/// The middle value, or the mean of the two in the middle. Requires: values is not empty.
double median(std::span<const double> values);

/// What one logits row says.
struct RowSummary {
  double log_z = 0;    ///< log of the sum of exp(logit)
  int32_t top = 0;     ///< the largest logit's index, the lowest among equals
  int32_t second = 0;  ///< the next one
  double margin = 0;   ///< nats between them
  bool finite = true;  ///< no NaN and no infinity in the row
};

/// Summary of one row. Requires: at least two logits.
RowSummary summarize(std::span<const float> logits);

/// KL(a || b) in nats of softmax(a) against softmax(b). Requires: equal sizes and their summaries.
double kl_divergence(std::span<const float> a, const RowSummary& summary_a,
                     std::span<const float> b, const RowSummary& summary_b);

/// Adds up how far configuration b is from configuration a, row by row.
class Divergence {
 public:
  /// One position: both logits rows with their summaries and the token that really came next.
  void add(std::span<const float> a, const RowSummary& summary_a, std::span<const float> b,
           const RowSummary& summary_b, int32_t next_token);

  size_t count() const { return kl_.size(); }
  double kl_mean() const;
  double kl_median() const { return median(kl_); }
  double kl_p99() const { return quantile(kl_, 0.99); }
  double same_top() const;  ///< share of rows with the same largest logit
  double perplexity_a() const;
  double perplexity_b() const;
  double perplexity_change() const { return perplexity_b() / perplexity_a() - 1; }
  bool finite() const { return finite_; }
  /// The widest margin, in a or in b, of a row whose tops differ; 0 if none does.
  double widest_flip() const { return widest_flip_; }

 private:
  std::vector<double> kl_;
  size_t same_ = 0;
  double nll_a_ = 0;
  double nll_b_ = 0;
  double widest_flip_ = 0;
  bool finite_ = true;
};

}  // namespace kvasir::eval
