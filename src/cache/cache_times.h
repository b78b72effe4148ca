// Where a cache's time goes.
#pragma once

#include <cstdint>

namespace kvasir {

/// Nanoseconds spent so far in each part of the work, all streams and layers together. What several
/// workers do at once counts as the time that passed, shared out by what each part took.
struct CacheTimes {
  int64_t append = 0;      ///< storing rows
  int64_t attention = 0;   ///< reading them
  int64_t selection = 0;   ///< of attention: choosing which of them a step reads
  int64_t metadata = 0;    ///< folding attention mass into the ranker's state
  int64_t compaction = 0;  ///< ranking, dropping, moving what stays, demoting
  int64_t ranking = 0;     ///< of compaction: scores, and the choice of what leaves
  int64_t demotion = 0;    ///< of compaction: demoting
};

}  // namespace kvasir
