#include "eval/data/prompts.h"

#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace kvasir::eval {
namespace {

constexpr std::string_view kContext = "{context}";
constexpr std::string_view kInput = "{input}";

Result<nlohmann::json> read_object(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{"cannot open " + path + ": expected a file with one JSON object"};
  const std::string text(std::istreambuf_iterator<char>(file), {});
  auto value = nlohmann::json::parse(text, nullptr, false);
  if (!value.is_object()) return Error{path + ": expected one JSON object, by task"};
  return value;
}

Error wrong(const std::string& path, const std::string& task, std::string_view what) {
  std::string message = path + ": field '" + task + "': ";
  return Error{message.append(what)};
}

}  // namespace

Result<Prompt> split_prompt(std::string_view prompt) {
  const size_t at = prompt.find(kContext);
  if (at == prompt.npos || prompt.find(kContext, at + 1) != prompt.npos) {
    return Error{"a prompt without exactly one {context}"};
  }
  return Prompt{std::string(prompt.substr(0, at)),
                std::string(prompt.substr(at + kContext.size()))};
}

std::string fill_input(std::string_view text, std::string_view input) {
  std::string filled;
  for (;;) {
    const size_t at = text.find(kInput);
    filled += text.substr(0, at);
    if (at == text.npos) return filled;
    filled += input;
    text.remove_prefix(at + kInput.size());
  }
}

Result<std::map<std::string, Prompt>> read_prompts(const std::string& path) {
  const auto object = read_object(path);
  if (!object) return Error{object.error()};
  std::map<std::string, Prompt> prompts;
  for (const auto& [task, value] : object.value().items()) {
    if (!value.is_string()) return wrong(path, task, "expected a string with one {context}");
    auto prompt = split_prompt(value.get_ref<const std::string&>());
    if (!prompt) return wrong(path, task, prompt.error());
    prompts.emplace(task, std::move(prompt.value()));
  }
  return prompts;
}

Result<std::map<std::string, int32_t>> read_numbers(const std::string& path) {
  const auto object = read_object(path);
  if (!object) return Error{object.error()};
  std::map<std::string, int32_t> numbers;
  for (const auto& [task, value] : object.value().items()) {
    const bool right = value.is_number_integer() && value.get<int64_t>() >= 1 &&
                       value.get<int64_t>() <= std::numeric_limits<int32_t>::max();
    if (!right) return wrong(path, task, "expected a whole number from 1 on");
    numbers.emplace(task, value.get<int32_t>());
  }
  return numbers;
}

}  // namespace kvasir::eval
