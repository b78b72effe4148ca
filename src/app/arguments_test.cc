#include "app/arguments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace kvasir::app {
namespace {

using Args = std::vector<std::string>;
using Env = std::map<std::string, std::string>;

EnvLookup lookup(Env values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

CacheOptions none() { return {}; }

CacheOptions conf() {
  CacheOptions options;
  options.policy = "conf";
  options.params.budget = 1024;
  return options;
}

CacheOptions endless() {
  CacheOptions options = conf();
  options.positions = PositionMode::kCache;
  return options;
}

// A model like the default one: 30 layers, trained for 8192 tokens.
ModelInfo small_model() {
  ModelInfo model;
  model.architecture = "llama";
  model.context_length = 8192;
  model.layers.assign(30, LayerGeometry{9, 3, 64, 64, 0});
  return model;
}

Result<Args> prepare(Command command, const Args& args, const CacheOptions& options,
                     const Env& env = {}, const std::optional<ModelInfo>& model = small_model()) {
  return prepare_arguments(command, args, lookup(env), options, model);
}

// Value behind `name`, "" for a switch that is there, nothing if it is not.
std::optional<std::string> value(const Result<Args>& args, const std::string& name) {
  if (!args) {
    ADD_FAILURE() << args.error();
    return std::nullopt;
  }
  const auto found = std::find(args.value().begin(), args.value().end(), name);
  if (found == args.value().end()) return std::nullopt;
  const bool has_value = found + 1 != args.value().end() && !(found + 1)->starts_with("--");
  return has_value ? *(found + 1) : std::string();
}

void expect_refused(const Result<Args>& result, const std::string& part) {
  ASSERT_FALSE(result) << "expected a refusal with: " << part;
  EXPECT_NE(result.error().find(part), std::string::npos) << result.error();
  EXPECT_EQ(result.error().find('\n'), std::string::npos) << result.error();
}

TEST(Device, IsGivenUnlessTheUserDoes) {
  for (const Command command :
       {Command::kRun, Command::kChat, Command::kServe, Command::kBench, Command::kPerplexity}) {
    EXPECT_EQ(value(prepare(command, {}, none()), "--device"), "KVASIR0")
        << front_end(command).name;
  }
  const auto given = prepare(Command::kRun, {"-dev", "none"}, none());
  EXPECT_FALSE(value(given, "--device"));
  EXPECT_FALSE(
      value(prepare(Command::kRun, {}, none(), {{"LLAMA_ARG_DEVICE", "none"}}), "--device"));
  EXPECT_FALSE(value(prepare(Command::kChat, {"--server-base", "http://h"}, none()), "--device"));
}

TEST(Device, WithoutPolicyNothingElseIsAddedToRun) {
  const Args given = {"-p", "hi", "-n", "5"};
  const auto result = prepare(Command::kRun, given, none());
  ASSERT_TRUE(result);
  EXPECT_EQ(result.value(), (Args{"-p", "hi", "-n", "5", "--device", "KVASIR0"}));
}

TEST(Device, QuantizeIsLeftAlone) {
  const Args given = {"in.gguf", "out.gguf", "q8_0"};
  const auto result = prepare(Command::kQuantize, given, none());
  ASSERT_TRUE(result);
  EXPECT_EQ(result.value(), given);
}

TEST(RowTypes, OnlyF16WithOrWithoutPolicy) {
  for (const CacheOptions& options : {none(), conf()}) {
    expect_refused(prepare(Command::kRun, {"-ctk", "q8_0"}, options), "use --kv-format");
    expect_refused(prepare(Command::kServe, {"--cache-type-v", "q4_0"}, options), "q4_0");
    expect_refused(prepare(Command::kRun, {}, options, {{"LLAMA_ARG_CACHE_TYPE_K", "bf16"}}),
                   "LLAMA_ARG_CACHE_TYPE_K=bf16");
    expect_refused(prepare(Command::kBench, {"-ctk", "f16,q8_0"}, options), "-ctk f16,q8_0");
    EXPECT_TRUE(prepare(Command::kRun, {"-ctk", "f16", "-ctv", "f16"}, options));
  }
  EXPECT_TRUE(prepare(Command::kRun, {"-ctk", "q8_0", "-ctk", "f16"}, none()))
      << "the last one counts";
  expect_refused(prepare(Command::kBench, {"-ctk", "q8_0", "-ctk", "f16"}, none()), "q8_0");
}

TEST(Policy, NeedsTheCacheOnTheDevice) {
  const std::vector<Args> refused = {
      {"-fa", "off"},       {"--flash-attn", "0"}, {"-nkvo"},
      {"--no-kv-offload"},  {"-ngl", "0"},         {"--gpu-layers", "30"},
      {"--device", "none"}, {"-dev", "CPU"},       {"-dev", "KVASIR0,CUDA0"}};
  for (const Args& args : refused) {
    expect_refused(prepare(Command::kRun, args, conf()), args[0]);
    EXPECT_TRUE(prepare(Command::kRun, args, none())) << args[0];
  }
  const std::vector<Args> allowed = {{"-fa", "on"},    {"-fa", "auto"}, {"-fa", "1"},
                                     {"-kvo"},         {"-ngl", "31"},  {"-ngl", "all"},
                                     {"-ngl", "auto"}, {"-ngl", "-1"},  {"-dev", "KVASIR0"}};
  for (const Args& args : allowed) {
    const auto result = prepare(Command::kRun, args, conf());
    EXPECT_TRUE(result) << result.error();
  }
  for (const Env& env : std::vector<Env>{{{"LLAMA_ARG_FLASH_ATTN", "off"}},
                                         {{"LLAMA_ARG_NO_KV_OFFLOAD", "1"}},
                                         {{"LLAMA_ARG_KV_OFFLOAD", "0"}},
                                         {{"LLAMA_ARG_N_GPU_LAYERS", "0"}},
                                         {{"LLAMA_ARG_DEVICE", "none"}}}) {
    expect_refused(prepare(Command::kRun, {}, conf(), env), env.begin()->first);
  }
}

TEST(Policy, InBenchEveryValueOfAListCounts) {
  expect_refused(prepare(Command::kBench, {"-fa", "on,off"}, conf()), "-fa on,off");
  expect_refused(prepare(Command::kBench, {"-nkvo", "0,1"}, conf()), "-nkvo 0,1");
  expect_refused(prepare(Command::kBench, {"-ngl", "99,0"}, conf()), "-ngl 99,0");
  expect_refused(prepare(Command::kBench, {"-ngl", "0-99+33"}, conf()), "-ngl 0-99+33");
  expect_refused(prepare(Command::kBench, {"-dev", "KVASIR0,none"}, conf()), "-dev KVASIR0,none");
  EXPECT_TRUE(prepare(Command::kBench, {"-nkvo", "0", "-fa", "on,auto", "-ngl", "-1,99"}, conf()));
}

TEST(Policy, NamesItselfInTheRefusal) {
  expect_refused(prepare(Command::kRun, {"-fa", "off"}, conf()), "--kv-policy conf");
}

TEST(Eviction, RefusesWhatItCannotHonour) {
  const std::vector<Args> in_serve = {{"--kv-unified"},         {"-kvu"},
                                      {"--context-shift"},      {"--swa-full"},
                                      {"--cache-reuse", "256"}, {"-np", "-1"}};
  for (const Args& args : in_serve) {
    expect_refused(prepare(Command::kServe, args, conf()), args[0]);
    EXPECT_TRUE(prepare(Command::kServe, args, none())) << args[0];
  }
  expect_refused(prepare(Command::kRun, {"--context-shift"}, conf()), "--context-shift");
  expect_refused(prepare(Command::kRun, {"-gan", "4"}, conf()), "-gan 4");
  expect_refused(prepare(Command::kServe, {}, conf(), {{"LLAMA_ARG_KV_UNIFIED", "1"}}),
                 "LLAMA_ARG_KV_UNIFIED=1");
  expect_refused(prepare(Command::kServe, {}, conf(), {{"LLAMA_ARG_CONTEXT_SHIFT", "true"}}),
                 "LLAMA_ARG_CONTEXT_SHIFT");
}

TEST(Eviction, AllowsTheSameFlagsSwitchedOff) {
  EXPECT_TRUE(prepare(Command::kServe,
                      {"--no-kv-unified", "--no-context-shift", "--cache-reuse", "0", "-np", "2"},
                      conf()));
}

TEST(Cap, NothingIsKeptOutsideIt) {
  CacheOptions options = conf();
  options.budget_mb = 64;
  for (const Args& args : std::vector<Args>{{"--cache-ram", "1024"},
                                            {"-cram", "-1"},
                                            {"--ctx-checkpoints", "8"},
                                            {"--slot-save-path", "/tmp"}}) {
    expect_refused(prepare(Command::kServe, args, options), args[0]);
    expect_refused(prepare(Command::kServe, args, options), "--kv-budget-mb 64");
    EXPECT_TRUE(prepare(Command::kServe, args, conf())) << args[0];
  }
  expect_refused(prepare(Command::kRun, {"--prompt-cache", "x"}, options), "--prompt-cache x");
  expect_refused(prepare(Command::kServe, {}, options, {{"LLAMA_ARG_CACHE_RAM", "100"}}),
                 "LLAMA_ARG_CACHE_RAM=100");
  for (const Command command : {Command::kServe, Command::kChat}) {
    const auto result = prepare(command, {}, options);
    EXPECT_EQ(value(result, "--cache-ram"), "0");
    EXPECT_EQ(value(result, "--ctx-checkpoints"), "0");
    EXPECT_TRUE(prepare(command, {"--cache-ram", "0"}, options));
  }
  EXPECT_EQ(value(prepare(Command::kServe, {}, conf()), "--cache-ram"), std::nullopt);
}

TEST(Eviction, PerplexityNamesWhatMeasuresIt) {
  expect_refused(prepare(Command::kPerplexity, {"-f", "x"}, conf()), "kvasir eval fidelity");
  EXPECT_TRUE(prepare(Command::kPerplexity, {"-f", "x"}, none()));
}

TEST(Serve, HasExplicitSlotsAndOneCacheEach) {
  for (const CacheOptions& options : {none(), conf()}) {
    const auto result = prepare(Command::kServe, {}, options);
    EXPECT_EQ(value(result, "--parallel"), "4");
    EXPECT_TRUE(value(result, "--no-kv-unified"));
  }
  const auto given = prepare(Command::kServe, {"-np", "2", "-kvu"}, none());
  EXPECT_FALSE(value(given, "--parallel"));
  EXPECT_FALSE(value(given, "--no-kv-unified"));
  EXPECT_FALSE(
      value(prepare(Command::kServe, {}, none(), {{"LLAMA_ARG_N_PARALLEL", "2"}}), "--parallel"));
}

TEST(Serve, SavesStateAsLlamaServerDoesEvicting) {
  for (const CacheOptions& options : {none(), conf()}) {
    const auto result = prepare(Command::kServe, {}, options);
    EXPECT_FALSE(value(result, "--cache-ram"));
    EXPECT_FALSE(value(result, "--ctx-checkpoints"));
    EXPECT_TRUE(
        prepare(Command::kServe, {"--slot-save-path", "/tmp", "--cache-ram", "512"}, options));
    EXPECT_TRUE(prepare(Command::kRun, {"--prompt-cache", "f"}, options));
  }
}

TEST(Cells, WithoutEvictionAreLlamasOwn) {
  for (const Command command : {Command::kRun, Command::kChat, Command::kServe}) {
    const auto result = prepare(command, {}, none());
    EXPECT_FALSE(value(result, "--ctx-size"));
    EXPECT_FALSE(value(result, "--fit"));
    EXPECT_FALSE(value(result, "--override-kv"));
  }
}

TEST(Cells, AreManyForEachSequenceWithCachePositions) {
  EXPECT_EQ(value(prepare(Command::kRun, {}, endless()), "--ctx-size"), "131072");
  EXPECT_EQ(value(prepare(Command::kChat, {}, endless()), "--ctx-size"), "131072");
  EXPECT_EQ(value(prepare(Command::kServe, {}, endless()), "--ctx-size"), "524288");
  EXPECT_EQ(value(prepare(Command::kServe, {"-np", "2"}, endless()), "--ctx-size"), "262144");
  EXPECT_EQ(
      value(prepare(Command::kServe, {}, endless(), {{"LLAMA_ARG_N_PARALLEL", "1"}}), "--ctx-size"),
      "131072");
  EXPECT_EQ(value(prepare(Command::kRun, {}, endless()), "--fit"), "off");
}

TEST(Cells, ServersAreLiftedOverTheTrainedContextAndRunNeedsNoLift) {
  const std::string lifted = "llama.context_length=int:131072";
  EXPECT_EQ(value(prepare(Command::kServe, {}, endless()), "--override-kv"), lifted);
  EXPECT_EQ(value(prepare(Command::kChat, {}, endless()), "--override-kv"), lifted);
  EXPECT_FALSE(value(prepare(Command::kRun, {}, endless()), "--override-kv"));
  EXPECT_EQ(value(prepare(Command::kServe, {"-c", "65536"}, endless()), "--override-kv"),
            "llama.context_length=int:16384");
  EXPECT_FALSE(value(prepare(Command::kServe, {"-c", "16384"}, endless()), "--override-kv"))
      << "4096 cells a slot are within the trained context";
}

TEST(Cells, LiftJoinsTheUsersOverrides) {
  EXPECT_EQ(
      value(prepare(Command::kServe, {"--override-kv", "a=int:1"}, endless()), "--override-kv"),
      "a=int:1,llama.context_length=int:131072");
  const std::string own = "llama.context_length=int:99";
  EXPECT_EQ(value(prepare(Command::kServe, {"--override-kv", own}, endless()), "--override-kv"),
            own);
}

TEST(Cells, YarnKeepsItsOriginalContext) {
  ModelInfo model = small_model();
  model.yarn_orig_ctx = 4096;
  EXPECT_EQ(value(prepare(Command::kServe, {}, endless(), {}, model), "--yarn-orig-ctx"), "4096");
  EXPECT_FALSE(value(prepare(Command::kServe, {}, endless()), "--yarn-orig-ctx"));
  EXPECT_EQ(value(prepare(Command::kServe, {"--yarn-orig-ctx", "9"}, endless(), {}, model),
                  "--yarn-orig-ctx"),
            "9");
}

TEST(Cells, OriginalPositionsStayWithinTheTrainedContext) {
  EXPECT_FALSE(value(prepare(Command::kRun, {}, conf()), "--ctx-size"));
  EXPECT_FALSE(value(prepare(Command::kChat, {}, conf()), "--ctx-size"));
  EXPECT_EQ(value(prepare(Command::kServe, {}, conf()), "--ctx-size"), "32768");
  EXPECT_FALSE(value(prepare(Command::kServe, {}, conf()), "--override-kv"));
}

TEST(Cells, LearnedPositionsHaveNoBeyond) {
  ModelInfo model = small_model();
  model.learned_positions = true;
  EXPECT_FALSE(value(prepare(Command::kRun, {}, endless(), {}, model), "--ctx-size"));
  EXPECT_FALSE(value(prepare(Command::kServe, {}, endless(), {}, model), "--override-kv"));
}

TEST(Cells, AZeroIsTheTrainedContextOfEachSequence) {
  const auto result = prepare(Command::kServe, {"-c", "0"}, conf());
  EXPECT_EQ(value(result, "-c"), "32768");
  EXPECT_EQ(
      value(prepare(Command::kServe, {}, conf(), {{"LLAMA_ARG_CTX_SIZE", "0"}}), "--ctx-size"),
      "32768");
}

TEST(Cells, TheUsersNumberStays) {
  const auto result = prepare(Command::kRun, {"-c", "1000000"}, endless());
  EXPECT_EQ(value(result, "-c"), "1000000");
  EXPECT_FALSE(value(result, "--ctx-size"));
  EXPECT_FALSE(
      value(prepare(Command::kServe, {"--kv-unified-per-slot", "4096"}, conf()), "--ctx-size"));
  EXPECT_EQ(value(prepare(Command::kRun, {"--fit", "on"}, endless()), "--fit"), "on");
}

TEST(Cells, WithoutALocalModelThereIsNoLift) {
  const auto result = prepare(Command::kServe, {"-hf", "a/b"}, endless(), {}, std::nullopt);
  EXPECT_EQ(value(result, "--ctx-size"), "524288");
  EXPECT_FALSE(value(result, "--override-kv"));
}

TEST(Names, AMistypedFlagOfOursIsRefusedAndLlamasAreNot) {
  expect_refused(prepare(Command::kRun, {"--kv-polcy", "conf"}, none()), "--kv-policy");
  expect_refused(prepare(Command::kBench, {"--kv-unified"}, none()), "--kv-unified: no such flag");
  EXPECT_TRUE(prepare(Command::kServe, {"--kv-unified", "--kv-offload"}, none()));
  EXPECT_TRUE(prepare(Command::kRun, {"-p", "--kv-polcy"}, none()));
}

TEST(Source, IsFoundInFlagsAndEnvironment) {
  const EnvLookup empty = lookup({});
  EXPECT_TRUE(model_source(Command::kRun, {}, empty).paths.empty());
  EXPECT_FALSE(model_source(Command::kRun, {}, empty).remote);
  EXPECT_EQ(model_source(Command::kRun, {"-m", "a", "-m", "b"}, empty).paths, (Args{"b"}));
  EXPECT_EQ(model_source(Command::kBench, {"-m", "a,b", "-m", "c"}, empty).paths,
            (Args{"a", "b", "c"}));
  EXPECT_EQ(model_source(Command::kRun, {}, lookup({{"LLAMA_ARG_MODEL", "e"}})).paths, (Args{"e"}));
  for (const Args& args : std::vector<Args>{{"-hf", "a/b"}, {"-mu", "u"}, {"-dr", "d"}}) {
    EXPECT_TRUE(model_source(Command::kRun, args, empty).remote) << args[0];
  }
  EXPECT_TRUE(model_source(Command::kServe, {"--models-dir", "d"}, empty).remote);
  EXPECT_TRUE(model_source(Command::kServe, {"--gpt-oss-20b-default"}, empty).remote);
  EXPECT_FALSE(model_source(Command::kServe, {"--spec-default"}, empty).remote);
  EXPECT_FALSE(model_source(Command::kRun, {"-p", "-hf"}, empty).remote);
}

TEST(Text, RequestsNeedNoModel) {
  const EnvLookup empty = lookup({});
  EXPECT_TRUE(asks_for_text(Command::kRun, {"-h"}, empty));
  EXPECT_TRUE(asks_for_text(Command::kBench, {"--help"}, empty));
  EXPECT_TRUE(asks_for_text(Command::kServe, {"--list-devices"}, empty));
  EXPECT_FALSE(asks_for_text(Command::kRun, {"-p", "--help"}, empty));
}

}  // namespace
}  // namespace kvasir::app
