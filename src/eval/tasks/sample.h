// What an evaluation asks: a context that is read and compressed, then questions about it.
//
// Knows texts only: how they become tokens, where the compression happens and who answers is the
// runner's business. Values, no behaviour.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::eval {

/// One question about a context, asked after it.
struct Question {
  std::string id;                       ///< unique inside its sample
  std::string text;                     ///< what is asked
  std::string answer_prefix;            ///< how the answer begins, given to the model; may be empty
  std::vector<std::string> references;  ///< right answers; what they mean is the metric's business
  std::vector<std::string> classes;     ///< all labels of a classification, else empty
  std::string metric;                   ///< a name of metrics()
  int32_t max_new_tokens = 32;
  bool first_line_only = false;  ///< only the first line of the answer counts
};

/// One context with its questions, asked one after the other.
struct Sample {
  std::string task;          ///< "needle", "niah_multikey_1", "narrativeqa", ...
  std::string id;            ///< unique inside its task, the same in every run
  std::string instructions;  ///< what stands before the context; may be empty
  std::string context;       ///< what is compressed
  std::vector<Question> questions;
  bool chat = true;  ///< wrapped in the model's chat template
  /// What the report groups by: numbers and strings by name ("length", "depth", "seed", ...).
  nlohmann::ordered_json tags = nlohmann::ordered_json::object();
};

/// How many tokens the model makes of a text, without a first token of its own.
using CountTokens = std::function<int32_t(std::string_view)>;

}  // namespace kvasir::eval
