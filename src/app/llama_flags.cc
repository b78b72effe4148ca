// Where the flags of each front end come from.
//
// llama.cpp builds its options as data, so their spellings and arity are asked for rather than
// copied. llama-bench parses by hand: its list is below, and argument_view_test.cc compares it
// with the program's own --help. llama-quantize takes no flag that matters to us.
#include "app/argument_view.h"
#include "arg.h"

namespace kvasir::app {
namespace {

std::vector<FlagSpec> ask_llama(llama_example example) {
  common_params params;
  const common_params_context parser = common_params_parser_init(params, example);
  std::vector<FlagSpec> flags;
  for (const common_arg& option : parser.options) {
    FlagSpec flag;
    flag.names.assign(option.args.begin(), option.args.end());
    flag.negated.assign(option.args_neg.begin(), option.args_neg.end());
    const bool takes_one = option.handler_string != nullptr || option.handler_int != nullptr;
    flag.n_values = option.handler_str_str != nullptr ? 2 : takes_one ? 1 : 0;
    if (option.env != nullptr) flag.env = option.env;
    flags.push_back(std::move(flag));
  }
  return flags;
}

std::vector<FlagSpec> bench_flags() {
  const std::vector<std::vector<std::string>> switches = {
      {"-h", "--help"}, {"--version"}, {"--list-devices"}, {"-v", "--verbose"},
      {"--progress"},   {"--offline"}, {"--no-warmup"}};
  const std::vector<std::vector<std::string>> valued = {{"-m", "--model"},
                                                        {"-hf", "-hfr", "--hf-repo"},
                                                        {"-hff", "--hf-file"},
                                                        {"-hft", "--hf-token"},
                                                        {"-p", "--n-prompt"},
                                                        {"-n", "--n-gen"},
                                                        {"-pg"},
                                                        {"-d", "--n-depth"},
                                                        {"-b", "--batch-size"},
                                                        {"-ub", "--ubatch-size"},
                                                        {"-ctk", "--cache-type-k"},
                                                        {"-ctv", "--cache-type-v"},
                                                        {"-t", "--threads"},
                                                        {"-C", "--cpu-mask"},
                                                        {"--cpu-strict"},
                                                        {"--poll"},
                                                        {"-ngl", "--n-gpu-layers"},
                                                        {"-ncmoe", "--n-cpu-moe"},
                                                        {"-rpc", "--rpc"},
                                                        {"-sm", "--split-mode"},
                                                        {"-lm", "--load-mode"},
                                                        {"-lzm", "--lazy-mode"},
                                                        {"-mg", "--main-gpu"},
                                                        {"-nkvo", "--no-kv-offload"},
                                                        {"--numa"},
                                                        {"-fa", "--flash-attn"},
                                                        {"-dev", "--device"},
                                                        {"-ts", "--tensor-split"},
                                                        {"-ot", "--override-tensor"},
                                                        {"-nopo", "--no-op-offload"},
                                                        {"--no-host"},
                                                        {"--repack"},
                                                        {"-fitt", "--fit-target"},
                                                        {"-fitc", "--fit-ctx"},
                                                        {"-embd", "--embeddings"},
                                                        {"-r", "--repetitions"},
                                                        {"--prio"},
                                                        {"--delay"},
                                                        {"-o", "--output"},
                                                        {"-oe", "--output-err"}};
  std::vector<FlagSpec> flags;
  flags.reserve(switches.size() + valued.size());
  for (const auto& names : switches) flags.push_back({names, {}, 0, ""});
  for (const auto& names : valued) flags.push_back({names, {}, 1, ""});
  return flags;
}

}  // namespace

const std::vector<FlagSpec>& flags_of(Command command) {
  static const std::vector<FlagSpec> run = ask_llama(LLAMA_EXAMPLE_COMPLETION);
  static const std::vector<FlagSpec> chat = ask_llama(LLAMA_EXAMPLE_CLI);
  static const std::vector<FlagSpec> serve = ask_llama(LLAMA_EXAMPLE_SERVER);
  static const std::vector<FlagSpec> perplexity = ask_llama(LLAMA_EXAMPLE_PERPLEXITY);
  static const std::vector<FlagSpec> bench = bench_flags();
  static const std::vector<FlagSpec> quantize = {{{"-h", "--help"}, {}, 0, ""}};
  switch (command) {
    case Command::kRun:
      return run;
    case Command::kChat:
      return chat;
    case Command::kServe:
      return serve;
    case Command::kPerplexity:
      return perplexity;
    case Command::kBench:
      return bench;
    case Command::kQuantize:
      return quantize;
  }
  return quantize;
}

}  // namespace kvasir::app
