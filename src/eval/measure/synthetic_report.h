// Tables and JSON of a cache measured alone. Pure: values in, text out.
#pragma once

#include <string>
#include <vector>

#include "eval/measure/machine_read.h"
#include "eval/measure/synthetic.h"

namespace kvasir::eval {

struct SyntheticSetup {
  SyntheticShape shape;
  MachineFigures machine;
  std::string kernels;  ///< name of the kernel table
  std::string flags;    ///< --kv-* flags as given
};

/// One number for each part of the steps at one depth: medians of what every step does; means of
/// ranking, eviction and demotion, which need not happen in each.
StepTimes typical_step(const SyntheticSamples& samples);

/// Milliseconds of the longest step; 0 without steps.
double longest_step(const SyntheticSamples& samples);

/// GB/s at which attention read K and V; 0 without steps.
double attention_gb_per_s(const SyntheticSamples& samples);

/// What 100,000 rows more cost, between two depths: ms of each part of typical_step().
StepTimes slope(const SyntheticSamples& from, const SyntheticSamples& to);

std::string to_markdown(const SyntheticSetup& setup, const std::vector<SyntheticSamples>& all);

/// One JSON object with every step.
std::string to_json(const SyntheticSetup& setup, const std::vector<SyntheticSamples>& all);

}  // namespace kvasir::eval
