#include "eval/eval.h"

#include <array>
#include <cstdio>

#include "eval/agent_play/agent_command.h"
#include "eval/answers/task_kinds.h"
#include "eval/fidelity/fidelity_command.h"
#include "eval/neighbours/neighbours_command.h"
#include "eval/premise/premise_command.h"
#include "eval/report/results.h"
#include "eval/report_command.h"
#include "eval/run/eval_command.h"

namespace kvasir::eval {
namespace {

struct Kind {
  const char* name;
  const char* text;
  int (*run)(const std::vector<std::string>& args);
};

constexpr std::array kKinds = {
    Kind{"fidelity", "next-token distributions against the full cache, token by token",
         fidelity_command},
    Kind{"needle", "a value hidden in a text, by length and depth", needle_command},
    Kind{"ruler", "RULER's thirteen tasks", ruler_command},
    Kind{"kvretrieval", "values of random keys, several questions on one context",
         kvretrieval_command},
    Kind{"manyshot", "a classification learnt from examples in the context", manyshot_command},
    Kind{"dataset", "LongBench, SCBench and AIME files on disk", dataset_command},
    Kind{"agent", "tasks on a web shop and form site, page after page", agent_command},
    Kind{"premise", "does confidence tell what a step would lose?", premise_command},
    Kind{"neighbours", "where tokens that are alike lie, and what is left without them",
         neighbours_command},
    Kind{"report", "one page with plots from results", report_command},
    Kind{"compare", "two results side by side", compare_command},
};

std::string help() {
  std::string text =
      "What a cache setting costs on your own model, against its full f16 cache in the same run.\n"
      "\nUsage: kvasir eval KIND [options] [--kv-* flags] [--set \"NAME: --kv-* flags\"]...\n\n";
  for (const Kind& kind : kKinds) {
    char line[160];
    std::snprintf(line, sizeof(line), "  %-12s %s\n", kind.name, kind.text);
    text += line;
  }
  return text + "\n`kvasir eval KIND --help` shows the options of one.\n";
}

}  // namespace

int eval_command(const std::vector<std::string>& args) {
  const std::string name = args.empty() ? "--help" : args.front();
  if (name == "--help" || name == "-h") {
    std::fputs(help().c_str(), stdout);
    return 0;
  }
  EvalCommand::set_writers(write_page, check_result);
  std::string names;
  for (const Kind& kind : kKinds) {
    if (name == kind.name) return kind.run({args.begin() + 1, args.end()});
    names += (names.empty() ? "" : ", ") + std::string(kind.name);
  }
  std::fprintf(stderr, "kvasir eval: unknown kind '%s'; there is %s\n", name.c_str(),
               names.c_str());
  return 2;
}

}  // namespace kvasir::eval
