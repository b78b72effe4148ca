// The --kv-* flags as a value: one parser for the command line and for KVASIR_FLAGS.
//
// Flag names, defaults and meanings are those of the user's manual (docs/flags.md). Only exact
// names are ours; everything else in an argument list is left for llama.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/residual_codec.h"
#include "policy/policy.h"
#include "select/selector.h"

namespace kvasir {

enum class MathMode { kF32, kBf16 };            ///< --kv-math f32 | bf16
enum class PrefillMode { kExact, kStream };     ///< --kv-prefill exact | stream
enum class PositionMode { kOriginal, kCache };  ///< --kv-positions original | cache

/// Tokens that stay f16 where older ones do not: CONF-KV's W (arXiv 2605.24786, table 5).
inline constexpr int32_t kDefaultRecent = 128;

/// Axes that --kv-format latent keeps, percent of the channels: about a third of the bytes.
inline constexpr int32_t kDefaultRank = 30;

/// --kv-restored: as many as RestoredRows says.
inline constexpr int32_t kUsualRestored = -1;

struct CacheOptions {
  std::string policy = "none";  ///< --kv-policy
  PolicyParams params;          ///< what the policy reads
  PrefillMode prefill = PrefillMode::kExact;
  MathMode math = MathMode::kF32;
  std::optional<PositionMode> positions;  ///< empty: the policy's default
  std::string format = "f16";             ///< --kv-format: of tokens older than the recent window
  int32_t recent = kDefaultRecent;        ///< --kv-recent: newest tokens that stay f16
  ResidualParams residual;                ///< --kv-residual: of --kv-format residual
  int32_t rank_percent = kDefaultRank;    ///< --kv-rank: of --kv-format latent
  std::string select = "dense";           ///< --kv-select: which stored tokens a step reads
  SelectParams select_params;             ///< --kv-keep, --kv-full-layers
  int32_t restored = kUsualRestored;      ///< --kv-restored: rows that a layer keeps restored
  int32_t budget_mb = 0;                  ///< --kv-budget-mb: cap of all caches, MiB; 0: none
  std::string trace_path;                 ///< --kv-trace FILE; empty: none
  bool stats = false;                     ///< --kv-stats: statistics at exit

  /// True if the policy ever drops a token: every policy but "none" does.
  bool evicts() const;
  /// True if older tokens are stored in another format than f16.
  bool demotes() const { return format != "f16"; }
  /// True if a step may read a part of the stored tokens.
  bool selects() const { return select != "dense"; }
  /// True if tokens must be kept by arrival, and one sequence per stream is needed: rows may move
  /// after they were stored, or are read by their age.
  bool moves_rows() const { return evicts() || demotes() || selects(); }
  /// True if --kv-budget-mb alone says how many tokens stay.
  bool budget_from_cap() const;
  int64_t cap_bytes() const { return int64_t{budget_mb} << 20; }
  /// The flag that makes rows move, as people gave it: "--kv-policy conf", "--kv-format int8" or
  /// "--kv-select quest".
  std::string mover() const;
  /// Where tokens count: as asked for, else as the policy does; kOriginal if it cannot be made.
  PositionMode position_mode() const;

  bool operator==(const CacheOptions&) const = default;
};

/// The policy that the options ask for, its schedule read. Fails where make_policy fails, and on a
/// schedule that cannot be read.
Result<Policy> policy_of(const CacheOptions& options);

/// One flag as `--help` and the docs show it.
struct FlagHelp {
  std::string_view name;     ///< "--kv-policy"
  std::string_view value;    ///< "NAME", or empty for a switch
  std::string_view text;     ///< what it does
  std::string_view initial;  ///< its default in words; empty for a switch
  std::string_view allowed;  ///< allowed values in words; empty for a switch
};

/// All --kv-* flags of ours that this version offers, in the order in which they are shown.
std::span<const FlagHelp> flag_help();

/// flag_help() as lines for `--help`: each flag with its text, default and allowed values.
std::string flag_help_text();

/// Takes our flags ("--kv-x V" and "--kv-x=V") out of `args` and folds them into `options`; later
/// ones win. What is not ours stays in `args`, in order. Does not validate combinations.
/// A separate argument that starts with "--" is not taken as a value; "--kv-trace=--odd" is.
/// Fails with one line on a missing value or a value out of range; then neither args nor options
/// are changed.
Result<void> take_flags(std::vector<std::string>& args, CacheOptions& options);

/// The flags that give these options, as one line that split_flags and take_flags read back to the
/// same value: --kv-policy, then each flag that is not at its default.
std::string describe(const CacheOptions& options);

/// Checks the combination: the policy and its parameters, flags that mean something only where
/// tokens are evicted, and that the trace file can be written. An existing file is not changed, and
/// none is left behind.
Result<void> validate(const CacheOptions& options);

/// Splits KVASIR_FLAGS as a shell would: blanks, single and double quotes, backslash; nothing is
/// expanded. Fails with one line on an open quote or a backslash at the end.
Result<std::vector<std::string>> split_flags(std::string_view text);

}  // namespace kvasir
