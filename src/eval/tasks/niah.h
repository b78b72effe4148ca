// Needles in a haystack: keys with values hidden in a text, asked for afterwards.
//
// The form behind the needle grid and RULER's eight niah tasks; those are in needle.h and ruler.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "eval/tasks/material.h"
#include "eval/tasks/sample.h"
#include "eval/tasks/values.h"

namespace kvasir::eval {

enum class HaystackKind {
  kNoise,    ///< a few plain sentences again and again
  kEssay,    ///< the text that the caller gives
  kNeedles,  ///< further needles with other keys and values
};

struct NiahPlan {
  std::string task{};
  std::string id{};
  std::string draws{};  ///< name of the stream of random draws; the seed is its other half
  int32_t length = 0;
  uint64_t seed = 1;
  HaystackKind haystack = HaystackKind::kNoise;
  ValueKind key_kind = ValueKind::kWord;
  ValueKind value_kind = ValueKind::kNumber;
  size_t keys = 1;     ///< different keys
  size_t values = 1;   ///< of each key
  size_t queries = 1;  ///< keys that are asked for, at most `keys`
  int32_t max_new_tokens = 128;
  std::optional<double> depth{};  ///< share of the haystack before the only needle; else drawn
};

/// Fails with one line if the length is too small or an essay is needed and missing.
Result<Sample> make_niah(const NiahPlan& plan, const Material& material,
                         const CountTokens& count_tokens);

}  // namespace kvasir::eval
