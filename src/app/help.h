// What the program says of itself, in lines of at most 100 columns.
//
// Pure text: llama.cpp's own help is printed by its front ends behind ours.
#pragma once

#include <string>
#include <string_view>

#include "app/command.h"

namespace kvasir::app {

/// Breaks `text` at blanks into lines of at most `width` columns that begin with `indent` blanks.
/// A longer word stands alone on its line. Ends with a newline unless `text` is empty.
std::string wrap(std::string_view text, size_t indent, size_t width = 100);

/// The --kv-* flags with their meaning, default and allowed values.
std::string flags_text();

/// `kvasir --help`: commands, then flags.
std::string program_help();

/// `kvasir COMMAND --help` of a front end: how to call it, then flags.
std::string front_end_help(const FrontEnd& front_end);

/// `kvasir doctor --help`.
std::string doctor_help();

/// `kvasir --version`: ours, and llama.cpp's.
std::string version_text();

}  // namespace kvasir::app
