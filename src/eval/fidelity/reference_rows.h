// The reference's next-token distributions, against which a setting's are compared.
//
// Whole logits rows in memory, or, from a file, the largest logits of each row with the mass of the
// others. Knows distributions only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval/statistics.h"

namespace kvasir::eval {

/// One row of a setting against the reference's.
struct RowComparison {
  double kl = 0;             ///< nats, reference || setting
  bool same_top = false;     ///< the same token is the likeliest
  double nll = 0;            ///< of the token that really came next, under the setting
  double nll_reference = 0;  ///< and under the reference
};

class ReferenceRows {
 public:
  virtual ~ReferenceRows() = default;
  virtual int32_t n_rows() const = 0;
  /// True if kl is that of the whole distributions; else it is a lower bound.
  virtual bool is_exact() const = 0;
  /// Requires: 0 <= row < n_rows() and as many logits as the reference has.
  virtual RowComparison compare(int32_t row, std::span<const float> logits) const = 0;
};

/// Rows kept whole: n_rows x n_vocab x 4 bytes.
class WholeRows : public ReferenceRows {
 public:
  explicit WholeRows(int32_t n_vocab) : n_vocab_(static_cast<size_t>(n_vocab)) {}
  /// Takes a row and the token that really came next.
  void add(std::span<const float> logits, int32_t next_token);

  int32_t n_rows() const override { return static_cast<int32_t>(next_.size()); }
  bool is_exact() const override { return true; }
  RowComparison compare(int32_t row, std::span<const float> logits) const override;

  size_t n_vocab() const { return n_vocab_; }
  std::span<const float> row(int32_t index) const;
  int32_t next_token(int32_t index) const { return next_[static_cast<size_t>(index)]; }

 private:
  size_t n_vocab_;
  std::vector<float> logits_;  // [n_rows][n_vocab]
  std::vector<RowSummary> summaries_;
  std::vector<int32_t> next_;
};

/// The largest logits of each row: ids and log-probabilities, and the mass of all others.
struct TopRows : ReferenceRows {
  struct Row {
    std::vector<int32_t> ids;            ///< likeliest first
    std::vector<float> log_probability;  ///< nats
    float log_rest = 0;                  ///< log of the others' mass together
    float nll_next = 0;                  ///< of the token that really came next
    int32_t next = 0;
  };
  int32_t n_vocab = 0;
  int64_t bytes_full = 0;  ///< of the reference's cache at the end
  std::vector<Row> rows;

  int32_t n_rows() const override { return static_cast<int32_t>(rows.size()); }
  bool is_exact() const override { return false; }
  RowComparison compare(int32_t row, std::span<const float> logits) const override;
};

/// The top_k largest of each row. Requires: 1 <= top_k <= n_vocab.
TopRows top_rows(const WholeRows& whole, int32_t top_k);

/// Writes rows with what identifies them (one line of text without a newline). Fails with one line.
Result<void> write_top_rows(const std::string& path, const std::string& identity,
                            const TopRows& rows);

/// Reads them back. Fails with one line that names the file if it is damaged, was cut, or belongs
/// to another identity (then both are shown).
Result<TopRows> read_top_rows(const std::string& path, const std::string& identity);

}  // namespace kvasir::eval
