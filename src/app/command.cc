#include "app/command.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace kvasir::app {
namespace {

constexpr std::array kFrontEnds = {
    FrontEnd{Command::kRun, "run", "llama-completion", "complete a prompt"},
    FrontEnd{Command::kChat, "chat", "llama-cli", "talk to a model in the terminal"},
    FrontEnd{Command::kServe, "serve", "llama-server", "HTTP server, OpenAI-compatible"},
    FrontEnd{Command::kBench, "bench", "llama-bench", "prefill and decode speed"},
    FrontEnd{Command::kPerplexity, "perplexity", "llama-perplexity",
             "perplexity of a text (policies that keep every token)"},
    FrontEnd{Command::kQuantize, "quantize", "llama-quantize", "write a model in another format"},
};

constexpr std::array kOwnCommands = {
    OwnCommand{"calibrate", "which layers of a model are full with --kv-select omnikv"},
    OwnCommand{"doctor", "this CPU, this model, and what a set of flags would cost"},
    OwnCommand{"eval", "what a set of flags costs in answers, on your own model"},
    OwnCommand{"measure", "speed against stock llama.cpp, in paired runs"},
    OwnCommand{"model", "models by name: list, path NAME, pull NAME"},
};

constexpr std::array<std::string_view, 2> kReserved = {"train", "inspect"};

}  // namespace

std::span<const FrontEnd> front_ends() { return kFrontEnds; }

const FrontEnd* find_front_end(std::string_view name) {
  for (const FrontEnd& entry : kFrontEnds) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

const FrontEnd& front_end(Command command) {
  const auto* found = std::find_if(kFrontEnds.begin(), kFrontEnds.end(),
                                   [&](const FrontEnd& e) { return e.command == command; });
  assert(found != kFrontEnds.end());
  return *found;
}

std::span<const OwnCommand> own_commands() { return kOwnCommands; }

bool is_reserved(std::string_view name) {
  return std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

}  // namespace kvasir::app
