// What samples are made of besides a seed: texts that the caller has. Values, no behaviour.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvasir::eval {

struct QaSource;

/// The caller keeps what is pointed at alive.
struct Material {
  std::string_view essay{};              ///< prose for haystacks
  std::span<const std::string> words{};  ///< for keys and lists; empty: made-up words
  const QaSource* qa_1 = nullptr;        ///< questions of RULER's qa_1 (SQuAD)
  const QaSource* qa_2 = nullptr;        ///< questions of RULER's qa_2 (HotpotQA)
};

}  // namespace kvasir::eval
