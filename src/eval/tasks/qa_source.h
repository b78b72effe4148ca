// Questions with their paragraphs, from a file in the format of SQuAD or of HotpotQA.
//
// Knows the two formats and nothing of prompts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvasir::eval {

struct QaItem {
  std::string question;
  std::vector<std::string> answers;  ///< each once
  std::vector<size_t> gold;          ///< documents that hold the answer
  std::vector<size_t> near;          ///< others of the same article or task: first distractors
};

struct QaSource {
  std::vector<std::string> documents;  ///< each text once
  std::vector<QaItem> items;           ///< that have an answer, in the order of the file
};

/// Reads the text of a file: an object with "data" is SQuAD 1.1 or 2.0 (questions without an answer
/// are left out), an array is HotpotQA. `name` is what messages call it. Fails with one line that
/// says where ("dev.json: data[3].paragraphs[0].context: found a number, expected a string").
Result<QaSource> parse_qa(std::string_view text, const std::string& name);

}  // namespace kvasir::eval
