// What the commands over samples share: answering all of them under each setting, and the result.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "eval/answers/answerer.h"
#include "eval/run/eval_command.h"

namespace kvasir::eval {

/// Flags of how questions are asked.
struct AskFlags {
  bool question_first = false;
  bool same_context = false;
  bool cut_middle = false;
  int32_t most_tokens = 0;
  double temperature = 0;
  double top_p = 0.95;
  int32_t seeds = 1;
};

/// Adds them to a command. `sampling`: with temperature and seeds.
void add_ask_flags(CLI::App& app, AskFlags& flags, bool sampling);

/// Makes the samples once the model's tokens can be counted. Fails with one line.
using MakeSamples = std::function<Result<std::vector<Sample>>(const CountTokens& count_tokens)>;

/// Runs a parsed command: answers, table on stdout, files. `groups`: tags that scores are grouped
/// by. Returns the exit code.
int run_samples(EvalCommand& command, const AskFlags& flags, const MakeSamples& make_samples,
                const std::vector<std::vector<std::string>>& groups);

}  // namespace kvasir::eval
