// The `kvasir` program: finds the command and hands over.

#include <cstdio>
#include <string>
#include <vector>

#include "app/calibrate.h"
#include "app/command.h"
#include "app/doctor.h"
#include "app/front_ends.h"
#include "app/help.h"
#include "app/models.h"
#include "eval/eval.h"
#include "eval/measure/measure.h"

namespace kvasir::app {
namespace {

std::string command_names() {
  std::string names;
  for (const FrontEnd& entry : front_ends()) {
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  for (const OwnCommand& command : own_commands()) names += ", " + std::string(command.name);
  return names;
}

int refuse(const std::string& message) {
  std::fprintf(stderr, "kvasir: %s\n", message.c_str());
  return 2;
}

// Ours first, then the flags that `run` passes on.
int print_help() {
  const FrontEnd& run = front_end(Command::kRun);
  std::fputs(program_help().c_str(), stdout);
  std::printf("\nFlags of %s (`kvasir COMMAND --help` shows those of the others)\n\n",
              std::string(run.program).c_str());
  return print_llama_help(run);
}

int dispatch(int argc, char** argv) {
  const std::vector<std::string> args(argv + (argc > 1 ? 2 : argc), argv + argc);
  const std::string name = argc > 1 ? argv[1] : "--help";
  if (name == "--help" || name == "-h" || name == "help") return print_help();
  if (name == "--version" || name == "version") {
    std::fputs(version_text().c_str(), stdout);
    return 0;
  }
  if (const FrontEnd* entry = find_front_end(name)) return run_front_end(*entry, args);
  if (name == "calibrate") return calibrate_command(args, process_env());
  if (name == "doctor") return doctor_command(args, process_env());
  if (name == "model") return model_command(args, process_env());
  if (name == "eval") return eval::eval_command(args);
  if (name == "measure") return kvasir_measure(argc - 1, argv + 1);
  if (is_reserved(name)) {
    return refuse(name + ": not in this version; there is " + command_names());
  }
  return refuse(name + ": unknown command; there is " + command_names());
}

}  // namespace
}  // namespace kvasir::app

int main(int argc, char** argv) { return kvasir::app::dispatch(argc, argv); }
