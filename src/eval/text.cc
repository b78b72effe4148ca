#include "eval/text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>

namespace kvasir::eval {

namespace fs = std::filesystem;

namespace {

fs::path model_folder() { return cache_folder() / "models"; }

Result<std::string> run(const char* command) {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command, "r"), pclose);
  std::string text;
  std::array<char, 1 << 16> buffer;
  while (pipe != nullptr) {
    const size_t n = fread(buffer.data(), 1, buffer.size(), pipe.get());
    if (n == 0) break;
    text.append(buffer.data(), n);
  }
  if (text.empty()) return Error{std::string("no text from the command: ") + command};
  return text;
}

}  // namespace

fs::path cache_folder() {
  const char* named = std::getenv("KVASIR_CACHE_DIR");
  return named != nullptr ? named : KVASIR_CACHE_DIR;
}

Result<std::string> find_model(const std::string& path_or_name) {
  std::error_code ignored;
  if (fs::is_regular_file(path_or_name, ignored)) return path_or_name;
  const fs::path named = model_folder() / (path_or_name + ".gguf");
  if (fs::is_regular_file(named, ignored)) return named.string();
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(model_folder(), ignored)) {
    if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  std::string known;
  for (const auto& name : names) known += (known.empty() ? "" : ", ") + name;
  return Error{"no model '" + path_or_name + "': give a GGUF file or one of: " +
               (known.empty() ? "(none fetched yet, run `make build`)" : known)};
}

Result<std::string> read_text(const std::string& name) {
  if (name == "bible") return run("bible -f gen1:1-exo40:38 2>/dev/null");
  const std::string path = name == "gpl" ? "/usr/share/common-licenses/GPL-3" : name;
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{"cannot read the text " + path};
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<std::vector<llama_token>> tokenize(const llama_vocab* vocab, std::string_view text,
                                          int32_t count) {
  // Any tokenizer needs fewer than 16 bytes a token on average; more text is only slower.
  text = text.substr(0, static_cast<size_t>(count) * 16);
  std::vector<llama_token> tokens(text.size() + 8);
  const int32_t n = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()),
                                   tokens.data(), static_cast<int32_t>(tokens.size()), true, false);
  if (n < count) {
    return Error{"the text has " + std::to_string(n) + " tokens, " + std::to_string(count) +
                 " are needed"};
  }
  tokens.resize(static_cast<size_t>(count));
  return tokens;
}

Result<std::vector<llama_token>> first_tokens(const llama_vocab* vocab, const std::string& name,
                                              int32_t count) {
  auto text = read_text(name);
  if (!text) return Error{text.error()};
  auto tokens = tokenize(vocab, text.value(), count);
  if (!tokens) return Error{name + ": " + tokens.error()};
  return tokens;
}

std::vector<llama_token> random_tokens(int32_t count, int32_t n_vocab, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<llama_token> tokens(static_cast<size_t>(count));
  for (auto& token : tokens) {
    token = static_cast<llama_token>(generator() % static_cast<uint64_t>(n_vocab));
  }
  return tokens;
}

}  // namespace kvasir::eval
