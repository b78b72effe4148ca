#include "app/help.h"

#include <sstream>

#include "app/models.h"
#include "cache/options.h"
#include "llama.h"

namespace kvasir::app {
namespace {

std::string padded(std::string_view text, size_t width) {
  std::string out(text);
  if (out.size() < width) out.resize(width, ' ');
  return out;
}

void append_command(std::ostream& out, std::string_view name, std::string_view text) {
  out << "  " << padded(name, 12) << text << "\n";
}

}  // namespace

std::string wrap(std::string_view text, size_t indent, size_t width) {
  std::istringstream words{std::string(text)};
  const std::string margin(indent, ' ');
  std::string out;
  std::string line;
  for (std::string word; words >> word;) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > width) {
      out += margin + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) out += margin + line + "\n";
  return out;
}

std::string flags_text() {
  std::ostringstream out;
  for (const FlagHelp& help : flag_help()) {
    out << "  " << help.name << (help.value.empty() ? "" : " ") << help.value << "\n"
        << wrap(help.text, 6);
    if (help.value.empty()) continue;
    std::ostringstream values;
    values << "default: " << help.initial << "; allowed: " << help.allowed;
    out << wrap(values.str(), 6);
  }
  return out.str();
}

std::string program_help() {
  std::ostringstream out;
  out << "kvasir COMMAND [llama.cpp flags] [--kv-* flags]\n\n"
      << wrap(
             "A KV cache as a device for llama.cpp: decides which tokens stay in the cache of any "
             "GGUF model.",
             0)
      << "\nllama.cpp's programs, with the cache on the device\n";
  for (const FrontEnd& entry : front_ends()) {
    std::ostringstream text;
    text << entry.text << " (" << entry.program << ")";
    append_command(out, entry.name, text.str());
  }
  out << "\nOurs\n";
  for (const OwnCommand& command : own_commands()) append_command(out, command.name, command.text);
  std::ostringstream model;
  model << "-m takes a GGUF file or a name that `kvasir model list` shows; without it the model is "
        << kDefaultModel << ".";
  out << "\n"
      << wrap(model.str(), 0) << "\nFlags of the cache\n"
      << flags_text() << "\n"
      << wrap(
             "KVASIR_FLAGS takes the same flags; those on the command line win. Exit codes: 2 for "
             "a flag or a file that is refused, 1 for a failure while running.",
             0);
  return out.str();
}

std::string front_end_help(const FrontEnd& front_end) {
  std::ostringstream out;
  out << "kvasir " << front_end.name << " [" << front_end.program << " flags]";
  if (front_end.command == Command::kQuantize) {
    out << "\n\n";
    return out.str();
  }
  out << " [--kv-* flags]\n\nFlags of the cache\n"
      << flags_text() << "\nFlags of " << front_end.program << "\n\n";
  return out.str();
}

std::string doctor_help() {
  std::ostringstream out;
  out << "kvasir doctor [-m MODEL] [--kv-* flags]\n\n"
      << wrap(
             "Shows this CPU and the kernels in use, the model's attention, and what the flags "
             "would cost at several lengths.",
             0)
      << "\nFlags of the cache\n"
      << flags_text();
  return out.str();
}

std::string version_text() {
  std::ostringstream out;
  out << "kvasir " << KVASIR_VERSION << ", llama.cpp " << llama_version() << "\n";
  return out.str();
}

}  // namespace kvasir::app
