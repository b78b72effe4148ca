// How fast this machine reads memory with all threads together: the bound of attention in decode.
//
// Measured beside what it bounds, in the same run. Knows no cache. Not thread-safe.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/parallel.h"

namespace kvasir::eval {

/// Bytes of a buffer that no cache of this processor holds more than a quarter of.
int64_t read_buffer_bytes();

class MachineRead {
 public:
  /// Reads with the workers of `parallel`. Requires: buffer_bytes > 0.
  explicit MachineRead(ParallelFor& parallel, int64_t buffer_bytes = read_buffer_bytes());

  /// Reads the buffer several times and adds a sample for each. The buffer lives during the call.
  void measure();

  /// Median of the samples so far, in 1e9 bytes per second; 0 without any.
  double gb_per_s() const;
  const std::vector<double>& samples() const { return samples_; }
  int64_t buffer_bytes() const { return buffer_bytes_; }

 private:
  ParallelFor& parallel_;
  int64_t buffer_bytes_;
  std::vector<double> samples_;  // GB/s
};

/// What a report says of the machine.
struct MachineFigures {
  std::string cpu;
  int32_t n_threads = 0;
  double read_gb_per_s = 0;          ///< 0: not measured
  std::vector<double> read_samples;  ///< GB/s
  int64_t read_buffer_bytes = 0;
  int64_t peak_resident_bytes = 0;  ///< of the process, mapped weights too; 0: not known

  /// Takes the figures of a finished measurement.
  void take(const MachineRead& read);
  /// The line of a table's foot that says so.
  std::string read_line() const;
  nlohmann::ordered_json json() const;
};

}  // namespace kvasir::eval
