// Where the tokens of an evaluation come from: texts of Debian packages, files, or a seeded stream.
//
// Knows names and files; knows nothing of what the tokens are used for. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "llama.h"

namespace kvasir::eval {

/// Where fetched and built things lie: KVASIR_CACHE_DIR of the environment, or of the build.
std::filesystem::path cache_folder();

/// The path of a model given by path or by name: an existing file is taken as it is, a bare name
/// means NAME.gguf in the folder of models. Fails with one line that lists the names found there.
Result<std::string> find_model(const std::string& path_or_name);

/// A text: "bible" (command `bible` of package bible-kjv), "gpl" (the licence that every Debian
/// system has), or the path of a file. Fails with one line.
Result<std::string> read_text(const std::string& name);

/// At least `count` tokens of `text`, cut to `count`; with the model's own first token. Fails with
/// one line if the text is too short.
Result<std::vector<llama_token>> tokenize(const llama_vocab* vocab, std::string_view text,
                                          int32_t count);

/// read_text() and tokenize() in one, for a text given by a flag. Fails with one line.
Result<std::vector<llama_token>> first_tokens(const llama_vocab* vocab, const std::string& name,
                                              int32_t count);

/// `count` tokens below n_vocab, the same for the same seed on every machine.
std::vector<llama_token> random_tokens(int32_t count, int32_t n_vocab, uint64_t seed);

}  // namespace kvasir::eval
