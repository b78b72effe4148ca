// The commands of the program and the llama.cpp front end behind each.
//
// Names only: what a front end is given is arguments.h, how it is run is front_ends.h. Immutable
// tables, no state.
#pragma once

#include <span>
#include <string_view>

namespace kvasir::app {

/// Commands that hand over to a llama.cpp front end.
enum class Command { kRun, kChat, kServe, kBench, kPerplexity, kQuantize };

struct FrontEnd {
  Command command;
  std::string_view name;     ///< "run"
  std::string_view program;  ///< "llama-completion"
  std::string_view text;     ///< what it does, for --help
};

/// All front ends, in the order in which they are shown.
std::span<const FrontEnd> front_ends();

/// The front end called `name`, or null.
const FrontEnd* find_front_end(std::string_view name);

/// The entry of `command`.
const FrontEnd& front_end(Command command);

/// A command of our own.
struct OwnCommand {
  std::string_view name;
  std::string_view text;
};

/// Our own commands that this version has, in the order in which they are shown.
std::span<const OwnCommand> own_commands();

/// True for a name that is reserved for a later version.
bool is_reserved(std::string_view name);

}  // namespace kvasir::app
