// Help and the manual say what the flags are.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "cache/presets.h"
#include "cache/test_flags.h"
#include "format/row_codec.h"

namespace kvasir {
namespace {

using testing::parsed;
using testing::policies;

TEST(Help, TextNamesEveryFlagWithDefaultAndAllowedValues) {
  const std::string text = flag_help_text();
  for (const auto& flag : flag_help()) {
    std::string expected(flag.name);
    expected.append(flag.value.empty() ? "" : " ").append(flag.value);
    expected.append("\n    ").append(flag.text).append("\n");
    EXPECT_EQ(flag.value.empty(), flag.allowed.empty()) << flag.name;
    EXPECT_EQ(flag.value.empty(), flag.initial.empty()) << flag.name;
    if (!flag.value.empty()) {
      expected.append("    default: ").append(flag.initial);
      expected.append("; allowed: ").append(flag.allowed).append("\n");
    }
    EXPECT_NE(text.find(expected), std::string::npos) << text << "lacks\n" << expected;
  }
}

// A default in words is the one in force: giving it changes nothing.
TEST(Help, InitialValuesAreTheDefaults) {
  const std::set<std::string_view> in_words = {
      "--kv-budget",  "--kv-high",    "--kv-low",       "--kv-alpha",  "--kv-lambda",
      "--kv-protect", "--kv-pyramid", "--kv-shrink",    "--kv-scale",  "--kv-schedule",
      "--kv-trace",   "--kv-stats",   "--kv-positions", "--kv-preset", "--kv-blend",
      "--kv-values",  "--kv-by-age",  "--kv-budget-mb", "--kv-keep",   "--kv-full-layers",
      "--kv-restored"};
  for (const auto& flag : flag_help()) {
    if (in_words.contains(flag.name)) continue;
    EXPECT_EQ(parsed({std::string(flag.name), std::string(flag.initial)}), CacheOptions{})
        << flag.name;
  }
}

TEST(Help, AllowedFormatsAreTheRegisteredOnes) {
  const auto help = std::find_if(flag_help().begin(), flag_help().end(),
                                 [](const FlagHelp& flag) { return flag.name == "--kv-format"; });
  std::set<std::string> named;
  std::istringstream words{std::string(help->allowed)};
  for (std::string word; words >> word;) named.insert(word.substr(0, word.find(',')));
  std::set<std::string> registered;
  for (const RowFormat& format : row_formats()) registered.emplace(format.name);
  registered.insert({"residual", "latent"});  // tiers, not codecs of rows
  EXPECT_EQ(named, registered);
}

TEST(Help, AllowedPoliciesAreTheRegisteredOnes) { EXPECT_EQ(flag_help()[0].allowed, policies()); }

// The manual's tables are exactly what the program says of itself.
TEST(Help, ManualAgrees) {
  std::ifstream file(KVASIR_SOURCE_DIR "/docs/flags.md");
  std::stringstream manual;
  manual << file.rdbuf();
  std::string table = "| flag | meaning | default | allowed |\n|---|---|---|---|\n";
  for (const auto& flag : flag_help()) {
    table.append("| `").append(flag.name).append(flag.value.empty() ? "" : " ");
    table.append(flag.value).append("` | ").append(flag.text).append(" | ");
    table.append(flag.initial.empty() ? "off" : flag.initial).append(" | ");
    table.append(flag.allowed.empty() ? "takes no value" : flag.allowed).append(" |\n");
  }
  EXPECT_NE(manual.str().find("\n\n" + table + "\n"), std::string::npos)
      << "docs/flags.md lacks this table:\n"
      << table;
}

}  // namespace
}  // namespace kvasir
