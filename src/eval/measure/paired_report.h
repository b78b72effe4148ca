// Tables and JSON of paired measurements. Pure: values in, text out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eval/measure/machine_read.h"
#include "eval/measure/paired.h"

namespace kvasir::eval {

/// What was measured and on what.
struct PairedSetup {
  std::string model;        ///< as the user named it
  std::string description;  ///< llama.cpp's own: architecture, size, format
  MachineFigures machine;
  std::string a = "stock";
  std::string b = "kvasir";
  std::string b_flags;  ///< --kv-* flags of b, as given
  int32_t n_ubatch = 0;
  int64_t b_peak_bytes = 0;  ///< what b's cache held at most, all counted; 0: not known
};

/// What a step costs beyond the same step at depth 0: attention and all that grows with the cache.
struct AttentionTime {
  double a = 0;  ///< ms of a step (a chunk, or a token), from medians
  double b = 0;
  double ratio = 0;  ///< a over b
  /// 1e9 bytes of K and V a second, of those that the same step at depth 0 does not read; 0: not
  /// known.
  double a_gb_per_s = 0, b_gb_per_s = 0;
};

/// Empty if nothing of that kind was measured at depth 0, or at depth 0 itself.
std::vector<AttentionTime> attention_time(const std::vector<PairedSamples>& all,
                                          const PairedSamples& samples);

/// False if the machine was too busy for these samples to say anything: pairs whose ratios differ
/// by more than half, or a step that costs less at its depth than at depth 0.
bool is_steady(const std::vector<PairedSamples>& all, const PairedSamples& samples);

/// A Markdown table of medians with the setup above it.
std::string to_markdown(const PairedSetup& setup, const std::vector<PairedSamples>& all);

/// One JSON object with every sample, in seconds.
std::string to_json(const PairedSetup& setup, const std::vector<PairedSamples>& all);

}  // namespace kvasir::eval
