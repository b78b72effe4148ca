#include "eval/fidelity/reference_rows.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace kvasir::eval {
namespace {

size_t z(int64_t n) { return static_cast<size_t>(n); }

}  // namespace

void WholeRows::add(std::span<const float> logits, int32_t next_token) {
  assert(logits.size() == n_vocab_);
  logits_.insert(logits_.end(), logits.begin(), logits.end());
  summaries_.push_back(summarize(logits));
  next_.push_back(next_token);
}

std::span<const float> WholeRows::row(int32_t index) const {
  return std::span(logits_).subspan(z(index) * n_vocab_, n_vocab_);
}

RowComparison WholeRows::compare(int32_t index, std::span<const float> logits) const {
  const auto reference = row(index);
  const RowSummary& summary = summaries_[z(index)];
  const RowSummary own = summarize(logits);
  const size_t next = z(next_[z(index)]);
  return {kl_divergence(reference, summary, logits, own), summary.top == own.top,
          own.log_z - static_cast<double>(logits[next]),
          summary.log_z - static_cast<double>(reference[next])};
}

TopRows top_rows(const WholeRows& whole, int32_t top_k) {
  assert(top_k >= 1 && z(top_k) <= whole.n_vocab());
  TopRows top;
  top.n_vocab = static_cast<int32_t>(whole.n_vocab());
  std::vector<int32_t> order(whole.n_vocab());
  for (int32_t i = 0; i < whole.n_rows(); ++i) {
    const auto logits = whole.row(i);
    const RowSummary summary = summarize(logits);
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + top_k, order.end(), [&](int32_t a, int32_t b) {
      return logits[z(a)] != logits[z(b)] ? logits[z(a)] > logits[z(b)] : a < b;
    });
    TopRows::Row row;
    for (int32_t k = 0; k < top_k; ++k) {
      row.ids.push_back(order[z(k)]);
      row.log_probability.push_back(
          static_cast<float>(static_cast<double>(logits[z(order[z(k)])]) - summary.log_z));
    }
    double rest = 0;  // summed itself: 1 - the others' mass would lose its digits
    for (size_t k = z(top_k); k < order.size(); ++k) {
      rest += std::exp(static_cast<double>(logits[z(order[k])]) - summary.log_z);
    }
    row.log_rest = static_cast<float>(std::log(rest));
    row.next = whole.next_token(i);
    row.nll_next = static_cast<float>(summary.log_z - static_cast<double>(logits[z(row.next)]));
    top.rows.push_back(std::move(row));
  }
  return top;
}

// The others count as one event, which can only lower the divergence.
RowComparison TopRows::compare(int32_t index, std::span<const float> logits) const {
  const Row& row = rows[z(index)];
  const RowSummary own = summarize(logits);
  double kl = 0;
  double mass = 0;
  for (size_t k = 0; k < row.ids.size(); ++k) {
    const double log_q = static_cast<double>(logits[z(row.ids[k])]) - own.log_z;
    const double log_p = static_cast<double>(row.log_probability[k]);
    kl += std::exp(log_p) * (log_p - log_q);
    mass += std::exp(log_q);
  }
  const double rest = std::exp(static_cast<double>(row.log_rest));
  if (rest > 0) {
    const double own_rest = std::max(1 - mass, 1e-30);
    kl += rest * (static_cast<double>(row.log_rest) - std::log(own_rest));
  }
  return {std::max(kl, 0.0), row.ids.front() == own.top,
          own.log_z - static_cast<double>(logits[z(row.next)]), static_cast<double>(row.nll_next)};
}

}  // namespace kvasir::eval
