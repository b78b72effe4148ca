// What a measurement says of the machine that it was made on, and of this process.
#pragma once

#include <cstdint>
#include <string>

namespace kvasir::eval {

/// The processor's name as the system gives it, or "unknown".
std::string cpu_name();

/// Bytes of the largest cache of the processor; 0: not known.
int64_t largest_cache_bytes();

/// Bytes of memory that new allocations can have without swapping; 0: not known.
int64_t available_bytes();

/// Bytes of this process that are in memory now (VmRSS): mapped weights too; 0: not known.
int64_t resident_bytes();

/// The largest resident_bytes() of the process since this was made. Where the system does not let
/// its mark be set back, what is resident when it is asked for.
class PeakResident {
 public:
  PeakResident();
  int64_t bytes() const;

 private:
  bool is_set_back_;
};

}  // namespace kvasir::eval
