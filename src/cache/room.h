// Room for a ubatch under --kv-budget-mb: all caches of a context keep within one cap.
//
// Asked before the first rows of a ubatch are stored. Where what the ubatch may come to hold does
// not fit, streams are cut to an equal number of tokens per layer (memory_cap.h), by the ranker of
// their policy. A ubatch's own rows cannot leave before they were attended; sinks and protected
// tokens never leave.
#pragma once

#include <cstdint>
#include <span>

#include "base/parallel.h"
#include "base/result.h"
#include "cache/cache.h"

namespace kvasir {

/// Makes room in the caches of a context, which have equal streams, for n_new[stream] tokens; their
/// options have the cap. Fails with one line where the cap is too small even with everything
/// evicted that may leave.
/// @param n_ubatch  most tokens of any ubatch; for the message
Result<void> make_room(std::span<Cache* const> caches, std::span<const int32_t> n_new,
                       int32_t n_ubatch, ParallelFor& parallel);

/// The smallest --kv-budget-mb with which ubatches of n_ubatch tokens never fail, however they are
/// divided among the streams.
int64_t smallest_cap_mib(std::span<Cache* const> caches, int32_t n_ubatch, int32_t n_workers);

/// Tokens per layer that each stream may hold where all decode and hold as many.
int32_t tokens_under_cap(std::span<Cache* const> caches, int32_t n_workers);

/// Fails with one line where the cap of the caches is below smallest_cap_mib().
Result<void> check_cap(std::span<Cache* const> caches, int32_t n_ubatch, int32_t n_workers);

}  // namespace kvasir
