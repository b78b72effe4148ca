// The command line of `kvasir measure` as a value.
//
// Parses and checks; prints nothing and opens nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/options.h"
#include "eval/measure/capacity.h"
#include "eval/measure/paired.h"
#include "eval/measure/synthetic.h"

namespace kvasir::eval {

struct MeasureFlags {
  std::string model = "smollm2";
  PairedPlan plan{.depths = {0, 2048, 4096, 7600}};
  bool is_synthetic = false;  ///< run `synthetic` instead of `plan`
  SyntheticPlan synthetic;    ///< its options are `options`
  bool is_capacity = false;   ///< run `capacity` under `settings` instead of `plan`
  CapacityPlan capacity;
  std::vector<Setting> settings;
  int32_t n_threads = 2;
  int32_t n_ubatch = 512;
  std::string output = "md";
  std::string json_path;
  bool control = false;
  bool verbose = false;
  CacheOptions options;  ///< of the Kvasir side
  std::string kv_flags;  ///< the same as given
  std::string help;      ///< not empty: print this and end
};

/// The flags in `args`, the words behind `kvasir measure`. Fails with one line on what is unknown,
/// out of range or impossible together; validate() of the options is left to the caller.
Result<MeasureFlags> parse_measure(std::vector<std::string> args);

}  // namespace kvasir::eval
