#include "app/argument_view.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <sstream>

namespace kvasir::app {
namespace {

EnvLookup environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

const std::vector<std::string> kNone;

TEST(ArgumentView, LastSettingOfAnySpellingCounts) {
  const std::vector<std::string> args = {"-c", "100", "--ctx-size", "200"};
  const EnvLookup env = environment({});
  const ArgumentView view(Command::kRun, args, env);
  ASSERT_TRUE(view.find("-c"));
  EXPECT_EQ(view.find("-c")->value, "200");
  EXPECT_EQ(view.find("-c")->index, 3);
  EXPECT_EQ(view.all("--ctx-size").size(), 2u);
}

TEST(ArgumentView, UnderscoresAreDashesInLongNames) {
  const std::vector<std::string> args = {"--cache_type_k", "q8_0"};
  const EnvLookup env = environment({});
  const ArgumentView view(Command::kRun, args, env);
  ASSERT_TRUE(view.find("--cache-type-k"));
  EXPECT_EQ(view.find("--cache-type-k")->value, "q8_0");
}

TEST(ArgumentView, AValueThatLooksLikeAFlagIsAValue) {
  const std::vector<std::string> args = {"-p", "--device", "-n", "3"};
  const EnvLookup env = environment({});
  const ArgumentView view(Command::kRun, args, env);
  EXPECT_FALSE(view.find("--device"));
  EXPECT_EQ(view.find("--prompt")->value, "--device");
  EXPECT_EQ(view.find("-n")->value, "3");
  EXPECT_TRUE(view.unknown().empty());
}

TEST(ArgumentView, TwoValuesAreSkipped) {
  const std::vector<std::string> args = {"--control-vector-layer-range", "-c", "-n", "-fa", "off"};
  const EnvLookup env = environment({});
  const ArgumentView view(Command::kRun, args, env);
  EXPECT_FALSE(view.find("-c"));
  ASSERT_TRUE(view.find("-fa"));
  EXPECT_EQ(view.find("-fa")->value, "off");
}

TEST(ArgumentView, SwitchesAreOnOrOff) {
  const EnvLookup env = environment({});
  const std::vector<std::string> on = {"--kv-unified"};
  const std::vector<std::string> off = {"-nkvo"};
  EXPECT_EQ(ArgumentView(Command::kServe, on, env).find("-kvu")->value, "1");
  EXPECT_EQ(ArgumentView(Command::kRun, off, env).find("--kv-offload")->value, "0");
  EXPECT_EQ(ArgumentView(Command::kRun, off, env).find("--no-kv-offload")->value, "0");
}

TEST(ArgumentView, BenchTakesValuesWhereOthersHaveSwitches) {
  const std::vector<std::string> args = {"-nkvo", "0,1", "-fa", "on"};
  const EnvLookup env = environment({});
  const ArgumentView view(Command::kBench, args, env);
  EXPECT_EQ(view.find("--no-kv-offload")->value, "0,1");
  EXPECT_EQ(view.find("--flash-attn")->value, "on");
}

TEST(ArgumentView, EnvironmentCountsWhereTheCommandLineIsSilent) {
  const EnvLookup env = environment({{"LLAMA_ARG_CTX_SIZE", "512"},
                                     {"LLAMA_ARG_SWA_FULL", "0"},
                                     {"LLAMA_ARG_NO_KV_OFFLOAD", "1"}});
  const ArgumentView view(Command::kRun, kNone, env);
  ASSERT_TRUE(view.find("-c"));
  EXPECT_EQ(view.find("-c")->value, "512");
  EXPECT_TRUE(view.find("-c")->from_env);
  EXPECT_EQ(view.find("-c")->shown, "LLAMA_ARG_CTX_SIZE=512");
  EXPECT_FALSE(view.find("--swa-full")) << "llama.cpp sets a switch only from a word for on";
  ASSERT_TRUE(view.find("--kv-offload"));
  EXPECT_EQ(view.find("--kv-offload")->value, "0");
  const std::vector<std::string> args = {"-c", "64"};
  EXPECT_EQ(ArgumentView(Command::kRun, args, env).find("-c")->value, "64");
  EXPECT_FALSE(ArgumentView(Command::kBench, kNone, env).find("-c"));
}

TEST(ArgumentView, AMissingValueIsEmpty) {
  const std::vector<std::string> args = {"-c"};
  const EnvLookup env = environment({});
  const ArgumentView view(Command::kRun, args, env);
  ASSERT_TRUE(view.find("-c"));
  EXPECT_EQ(view.find("-c")->value, "");
  EXPECT_EQ(view.find("-c")->index, -1);
}

TEST(ArgumentView, UnknownArgumentsAreListed) {
  const std::vector<std::string> args = {"--kv-polcy", "conf", "-c", "8", "--kv-offload"};
  const EnvLookup env = environment({});
  const ArgumentView view(Command::kRun, args, env);
  EXPECT_EQ(view.unknown(), (std::vector<std::string>{"--kv-polcy", "conf"}));
}

// A flag that is renamed upstream would otherwise never be found, silently.
TEST(ArgumentView, EveryFlagThatIsAskedForExists) {
  const std::map<Command, std::vector<std::string>> asked = {
      {Command::kRun,
       {"--help",         "--version",    "--list-devices",  "--cache-list",    "--completion-bash",
        "--model",        "--hf-repo",    "--model-url",     "--docker-repo",   "--cache-type-k",
        "--cache-type-v", "--flash-attn", "--no-kv-offload", "--n-gpu-layers",  "--device",
        "--parallel",     "--fit",        "--ctx-size",      "--context-shift", "--swa-full",
        "--prompt-cache", "--grp-attn-n", "--override-kv",   "--yarn-orig-ctx"}},
      {Command::kServe,
       {"--parallel", "--kv-unified", "--cache-ram", "--ctx-checkpoints", "--cache-idle-slots",
        "--cache-reuse", "--slot-save-path", "--context-shift", "--swa-full", "--models-dir",
        "--models-preset", "--kv-unified-per-slot", "--mmproj-offload", "--mmproj-device"}},
      {Command::kChat,
       {"--cache-ram", "--ctx-checkpoints", "--context-shift", "--server-base", "--parallel",
        "--mmproj-offload", "--mmproj-device"}},
      {Command::kPerplexity, {"--device", "--cache-type-k", "--flash-attn", "--no-kv-offload"}},
      {Command::kBench,
       {"--help", "--version", "--list-devices", "--model", "--hf-repo", "--cache-type-k",
        "--cache-type-v", "--flash-attn", "--no-kv-offload", "--n-gpu-layers", "--device"}}};
  for (const auto& [command, names] : asked) {
    for (const std::string& name : names) {
      bool found = false;
      for (const FlagSpec& flag : flags_of(command)) {
        for (const std::string& spelling : flag.names) found = found || spelling == name;
        for (const std::string& spelling : flag.negated) found = found || spelling == name;
      }
      EXPECT_TRUE(found) << front_end(command).program << " has no " << name;
    }
  }
}

// llama-bench's list is ours by hand; its own help says which flags take a value ("-x, --y <z>").
TEST(ArgumentView, BenchFlagsAreThoseOfItsHelp) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(KVASIR_LLAMA_BENCH " --help", "r"), pclose);
  ASSERT_NE(pipe, nullptr);
  std::map<std::string, bool> documented;  // spelling: takes a value
  std::array<char, 1024> line;
  while (std::fgets(line.data(), line.size(), pipe.get()) != nullptr) {
    std::istringstream words{std::string(line.data())};
    std::vector<std::string> names;
    std::string word;
    while (words >> word && word.starts_with('-')) {
      names.push_back(word.ends_with(',') ? word.substr(0, word.size() - 1) : word);
    }
    for (const std::string& name : names) documented[name] = word.starts_with('<');
  }
  ASSERT_GT(documented.size(), 40u);
  std::map<std::string, bool> ours;
  for (const FlagSpec& flag : flags_of(Command::kBench)) {
    for (const std::string& name : flag.names) ours[name] = flag.n_values > 0;
  }
  for (const auto& [name, takes_value] : documented) {
    ASSERT_TRUE(ours.count(name)) << name << " is in llama-bench's help alone";
    EXPECT_EQ(ours[name], takes_value) << name;
  }
}

}  // namespace
}  // namespace kvasir::app
