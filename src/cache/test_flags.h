// What tests of flags share: words that are taken, and words that are refused.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cache/options.h"

namespace kvasir::testing {

using Words = std::vector<std::string>;

/// Parses `words`, expects success, returns the options; what is left goes to `rest`.
inline CacheOptions parsed(Words words, Words* rest = nullptr) {
  CacheOptions options;
  const auto ok = take_flags(words, options);
  EXPECT_TRUE(ok) << ok.error();
  if (rest != nullptr) *rest = words;
  return options;
}

/// All registered names, as lists of allowed ones have them.
inline std::string policies() {
  std::string names;
  for (const auto name : policy_names()) names.append(names.empty() ? "" : ", ").append(name);
  return names;
}

inline std::string refusal(Words words) {
  CacheOptions options;
  const Words before = words;
  const auto ok = take_flags(words, options);
  EXPECT_FALSE(ok) << "accepted";
  EXPECT_EQ(words, before) << "a failure changed the arguments";
  EXPECT_EQ(options, CacheOptions{}) << "a failure changed the options";
  return ok.error();
}

}  // namespace kvasir::testing
