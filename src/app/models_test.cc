#include "app/models.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace kvasir::app {
namespace {

namespace fs = std::filesystem;

EnvLookup one(const std::string& name, const std::string& value) {
  return [=](const std::string& asked) -> std::optional<std::string> {
    if (asked != name) return std::nullopt;
    return value;
  };
}

TEST(Models, LieInTheCacheOrUnderHome) {
  EXPECT_EQ(named_model_path("gemma3", one("KVASIR_CACHE_DIR", "/c")).value(),
            "/c/models/gemma3.gguf");
  EXPECT_EQ(named_model_path("gemma3", one("HOME", "/h")).value(),
            "/h/.cache/kvasir/models/gemma3.gguf");
  EXPECT_FALSE(named_model_path("gemma3", one("X", "")));
}

TEST(Models, TheDefaultIsOneOfThem) { EXPECT_EQ(named_models().front().name, kDefaultModel); }

// What models.sh can pull and what -m accepts are the same names.
TEST(Models, AreThoseOfTheSetUpTable) {
  std::ifstream table(KVASIR_ROOT "/tools/setup/models.tsv");
  ASSERT_TRUE(table);
  std::set<std::string> listed;
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string kind;
    std::string name;
    if (fields >> kind >> name && kind == "model") listed.insert(name);
  }
  std::set<std::string> ours;
  for (const NamedModel& model : named_models()) ours.insert(std::string(model.name));
  EXPECT_EQ(ours, listed);
}

TEST(Models, ResolveNamesAndLeavePathsAlone) {
  const fs::path cache =
      fs::temp_directory_path() / ("kvasir_models_test" + std::to_string(getpid()));
  fs::create_directories(cache / "models");
  const EnvLookup env = one("KVASIR_CACHE_DIR", cache.string());
  const Result<std::string> absent = resolve_model("gemma3", env);
  ASSERT_FALSE(absent);
  EXPECT_NE(absent.error().find("kvasir model pull gemma3"), std::string::npos) << absent.error();
  std::ofstream(cache / "models/gemma3.gguf") << "x";
  EXPECT_EQ(resolve_model("gemma3", env).value(), (cache / "models/gemma3.gguf").string());
  EXPECT_EQ(resolve_model("./gemma3", env).value(), "./gemma3");
  EXPECT_EQ(resolve_model("/somewhere/x.gguf", env).value(), "/somewhere/x.gguf");
  const Result<std::string> unknown = resolve_model("gemma33", env);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().find("smollm2-f16"), std::string::npos) << unknown.error();
  fs::remove_all(cache);
}

}  // namespace
}  // namespace kvasir::app
