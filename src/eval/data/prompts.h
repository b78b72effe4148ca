// Prompts with holes: where the context goes and where the question goes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvasir::eval {

/// A prompt cut at its {context}: both parts may hold {input}.
struct Prompt {
  std::string before;  ///< what stands before the context
  std::string after;   ///< what stands after it
};

/// Cuts a prompt. Fails with one line if {context} is not there exactly once.
Result<Prompt> split_prompt(std::string_view prompt);

/// `text` with every {input} replaced; what is put in is not looked at again.
std::string fill_input(std::string_view text, std::string_view input);

/// A file with one JSON object: prompts by task, all of them strings with one {context}. Fails with
/// one line that names the file and the task.
Result<std::map<std::string, Prompt>> read_prompts(const std::string& path);

/// A file with one JSON object: whole numbers from 1 on by task.
Result<std::map<std::string, int32_t>> read_numbers(const std::string& path);

}  // namespace kvasir::eval
