#include "eval/fidelity/fidelity_command.h"

#include <cstdio>

#include "eval/fidelity/fidelity_job.h"
#include "eval/fidelity/fidelity_json.h"

namespace kvasir::eval {
namespace {

void add_flags(CLI::App& app, FidelityFlags& flags) {
  app.add_option("--text", flags.text, "bible, gpl, or a file")->capture_default_str();
  app.add_option("--tokens", flags.tokens, "tokens of the text that are read")
      ->check(CLI::Range(2, 1 << 24))
      ->capture_default_str();
  app.add_option("--prefix", flags.prefix,
                 "of them, given as a prompt; the others one by one; half of them if not given")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--against", flags.against,
                 "the reference: full, Kvasir's f16 cache; or stock, llama.cpp's own on the CPU")
      ->check(CLI::IsMember({"full", "stock"}))
      ->capture_default_str();
  app.add_option("--reference", flags.reference,
                 "file of the reference's largest logits: read if it exists, else written");
  app.add_option("--top-k", flags.top_k, "logits of each row in that file, 8 bytes each")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--dump", flags.dump, "write all logits as .npy files into this folder");
}

}  // namespace

int fidelity_command(const std::vector<std::string>& args) {
  EvalCommand command("fidelity",
                      "Streaming fidelity: each setting's next-token distributions against the "
                      "full cache's, token by token",
                      "smollm2-f16");
  FidelityFlags flags;
  add_flags(command.app(), flags);
  if (auto code = command.parse(args)) return *code;
  if (!command.compares()) {
    return command.complain(
        "no setting to compare: give --methods N, --kv-* flags or --set \"NAME: --kv-policy window "
        "--kv-budget "
        "256\"",
        kUsage);
  }
  FidelityJob job(command, flags);
  auto prepared = job.prepare();
  if (!prepared) return command.complain(prepared.error(), kUsage);
  return command.carry_out(
      job.identity(), [&](RunFile& file) { return job.run(file); },
      [&](const RunFile& file, double seconds) { return job.result(file, seconds); },
      [&](const Json& result) {
        std::printf(
            "%s: %s, %d tokens, %d as a prompt, against %s; floor %.2g nats (stock against "
            "itself)\n\n",
            command.model_name().c_str(), flags.text.c_str(), flags.tokens,
            result.at("text").at("prefix").get<int>(), flags.against.c_str(), job.floor().kl);
        std::fputs(fidelity_table(result.at("sets"), job.floor().kl).c_str(), stdout);
      });
}

}  // namespace kvasir::eval
