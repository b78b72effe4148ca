// How the flags whose values are not plain numbers are read into the options and shown again.
//
// Setters and getters as flag_values.h says. Inside src/cache/ only.
#pragma once

#include "cache/flag_values.h"

namespace kvasir::flags {

Result<void> set_budget(Text flag, Text value, CacheOptions& options);
Result<void> set_pyramid(Text flag, Text value, CacheOptions& options);
Result<void> set_heads(Text flag, Text value, CacheOptions& options);
Result<void> set_scale(Text flag, Text value, CacheOptions& options);
Result<void> set_schedule(Text flag, Text value, CacheOptions& options);
Result<void> set_policy(Text flag, Text value, CacheOptions& options);
Result<void> set_prefill(Text flag, Text value, CacheOptions& options);
Result<void> set_math(Text flag, Text value, CacheOptions& options);
Result<void> set_positions(Text flag, Text value, CacheOptions& options);
Result<void> set_select(Text flag, Text value, CacheOptions& options);
Result<void> set_keep(Text flag, Text value, CacheOptions& options);
Result<void> set_full_layers(Text flag, Text value, CacheOptions& options);
Result<void> set_format(Text flag, Text value, CacheOptions& options);
Result<void> set_preset(Text flag, Text value, CacheOptions& options);
Result<void> set_recent(Text flag, Text value, CacheOptions& options);
Result<void> set_residual(Text flag, Text value, CacheOptions& options);
Result<void> set_rank(Text flag, Text value, CacheOptions& options);
Result<void> set_restored(Text flag, Text value, CacheOptions& options);
Result<void> set_budget_mb(Text flag, Text value, CacheOptions& options);
Result<void> set_trace(Text flag, Text value, CacheOptions& options);
Result<void> set_stats(Text flag, Text value, CacheOptions& options);

/// Of flags that are shown as those that they stand for.
Shown nothing(const CacheOptions& options);
Shown get_budget(const CacheOptions& options);
Shown get_pyramid(const CacheOptions& options);
Shown get_heads(const CacheOptions& options);
Shown get_scale(const CacheOptions& options);
Shown get_schedule(const CacheOptions& options);
Shown get_residual(const CacheOptions& options);
Shown get_rank(const CacheOptions& options);
Shown get_restored(const CacheOptions& options);
Shown get_budget_mb(const CacheOptions& options);
Shown get_policy(const CacheOptions& options);
Shown get_prefill(const CacheOptions& options);
Shown get_math(const CacheOptions& options);
Shown get_positions(const CacheOptions& options);
Shown get_format(const CacheOptions& options);
Shown get_recent(const CacheOptions& options);
Shown get_select(const CacheOptions& options);
Shown get_keep(const CacheOptions& options);
Shown get_full_layers(const CacheOptions& options);
Shown get_trace(const CacheOptions& options);
Shown get_stats(const CacheOptions& options);

}  // namespace kvasir::flags
