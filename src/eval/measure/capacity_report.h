// Table and JSON of how many sequences fit. Pure: values in, text out.
#pragma once

#include <string>
#include <vector>

#include "eval/measure/capacity.h"
#include "eval/measure/machine_read.h"

namespace kvasir::eval {

/// What was measured and on what.
struct CapacitySetup {
  std::string model;        ///< as the user named it
  std::string description;  ///< llama.cpp's own: architecture, size, format
  MachineFigures machine;
  CapacityPlan plan;
};

/// A Markdown table with the setup above it.
std::string to_markdown(const CapacitySetup& setup, const std::vector<CapacitySample>& all);

/// One JSON object with every step, in seconds.
std::string to_json(const CapacitySetup& setup, const std::vector<CapacitySample>& all);

}  // namespace kvasir::eval
