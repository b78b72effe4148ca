// RULER's tasks on variables and word frequencies.
#include <algorithm>
#include <cstdint>
#include <numbers>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "eval/tasks/fit.h"
#include "eval/tasks/haystack.h"
#include "eval/tasks/ruler_makers.h"
#include "eval/tasks/values.h"

namespace kvasir::eval {
namespace {

constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

// Different strings of `letters` letters of an alphabet.
std::vector<std::string> draw_codes(size_t count, size_t letters, std::string_view alphabet,
                                    SeededRandom& random) {
  std::unordered_set<std::string> seen;
  std::vector<std::string> codes;
  while (codes.size() < count) {
    std::string code = random.letters(letters, alphabet);
    if (seen.insert(code).second) codes.push_back(std::move(code));
  }
  return codes;
}

FitPlan fit_plan(const RulerRequest& request, int64_t least) {
  return {.name = std::string(request.task),
          .length = request.length,
          .least = least,
          .most = std::max<int64_t>(request.length, least)};
}

constexpr int64_t kCommon = 10;

// The ten common words and the others after them, drawn when they are needed first.
class WordList {
 public:
  WordList(ValueSource source, int32_t length)
      : source_(std::move(source)),
        common_repeats_(length < kFullSize ? 6 : 30),
        other_repeats_(length < kFullSize ? 1 : 3) {}

  std::vector<std::string> common() {
    draw(kCommon);
    return words_;
  }

  // "1. word 2. word ...", in the same shuffled order for the same stream.
  std::string numbered(int64_t others, SeededRandom order) {
    draw(kCommon + others);
    std::vector<std::string_view> list;
    const int64_t count = std::min(std::ssize(words_), kCommon + others);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t repeats = i < kCommon ? common_repeats_ : other_repeats_;
      list.insert(list.end(), static_cast<size_t>(repeats), words_[static_cast<size_t>(i)]);
    }
    order.shuffle(list);
    std::string text;
    for (size_t i = 0; i < list.size(); ++i) {
      if (i > 0) text += ' ';
      text += std::to_string(i + 1);
      text += ". ";
      text += list[i];
    }
    return text;
  }

  const std::string& error() const { return error_; }

 private:
  static constexpr int32_t kFullSize = 4096;  // shorter lists repeat less, as RULER's do

  void draw(int64_t count) {
    while (std::ssize(words_) < count && error_.empty()) {
      Result<std::string> word = source_.word();
      error_ = word.error();
      if (word) words_.push_back(std::move(word.value()));
    }
  }

  ValueSource source_;
  int64_t common_repeats_;
  int64_t other_repeats_;
  std::vector<std::string> words_;
  std::string error_;  // once the words have run out
};

}  // namespace

Result<Sample> make_variable_tracking(const RulerRequest& request) {
  constexpr size_t kHops = 4;
  constexpr size_t kLetters = 5;
  SeededRandom random(request.seed, request.task);
  const std::vector<std::string> names = draw_codes(kHops + 1, kLetters, kUpper, random);
  const std::string value = random.digits(5);
  std::vector<double> depths;
  for (size_t i = 0; i < names.size(); ++i) depths.push_back(random.share());
  std::sort(depths.begin(), depths.end());
  std::vector<Placed> chain = {{.sentence = "VAR " + names[0] + " = " + value, .depth = depths[0]}};
  for (size_t i = 1; i < names.size(); ++i) {
    chain.push_back({.sentence = "VAR " + names[i] + " = VAR " + names[i - 1], .depth = depths[i]});
  }

  Question question;
  question.text =
      "\n\nWhich variables hold the value " + value + ", directly or handed on by another?";
  question.answer_prefix = "Following the assignments, " + std::to_string(names.size()) +
                           " variables hold the value " + value + ", they are:";
  question.references = names;
  question.metric = "all_found";
  question.max_new_tokens = 30;
  const Sample empty = ruler_frame(
      request,
      "Assignments of variables are hidden in the text below. Follow how a value is handed on from "
      "variable to variable.\n\n",
      std::move(question));
  const SentenceSource sentences(noise_text(), random);
  return fit_sample(fit_plan(request, 40), request.count_tokens, [&](int64_t words) {
    Sample full = empty;
    full.context = insert_needles(sentences.take(words), chain, " ");
    return full;
  });
}

Result<Sample> make_common_words(const RulerRequest& request) {
  const ValueSource source(SeededRandom(request.seed, request.task), request.material.words, "");
  WordList words(source, request.length);
  const std::vector<std::string> common = words.common();
  Question question;
  question.text = "\n\nWhich 10 words occur most often in the list above?";
  question.answer_prefix = "The 10 words that occur most often in the list above are:";
  question.references = common;
  question.metric = "all_found";
  question.max_new_tokens = 120;
  const Sample empty = ruler_frame(
      request,
      "Below is a numbered list of words, some of which occur more often than others. Remember the "
      "ones that occur most often.\n\n",
      std::move(question));
  const SeededRandom order(request.seed, std::string(request.task) + "-order");
  Result<Sample> sample =
      fit_sample(fit_plan(request, kCommon), request.count_tokens, [&](int64_t others) {
        Sample full = empty;
        full.context = words.numbered(others, order);
        return full;
      });
  if (!words.error().empty()) return Error{std::string(request.task) + ": " + words.error()};
  return sample;
}

Result<Sample> make_frequent_words(const RulerRequest& request) {
  constexpr size_t kLetters = 6;
  constexpr int32_t kTokensPerCode = 50;  // of the length: how many codes there are
  constexpr int64_t kLeastWords = 100;    // with fewer, ranks 4 and 5 occur equally often
  constexpr double kZeta2 = std::numbers::pi * std::numbers::pi / 6;
  SeededRandom random(request.seed, request.task);
  const auto codes = static_cast<size_t>(std::max(request.length / kTokensPerCode, 8));
  std::vector<std::string> vocabulary = draw_codes(codes, kLetters, kLower, random);
  vocabulary[0].assign(3, '.');

  Question question;
  question.text =
      "\n\nWhich three coded words occur most often in the text above? Leave out the dots '...' "
      "and "
      "explain nothing.";
  question.answer_prefix = "The three coded words that occur most often in the text above are:";
  question.references.assign(vocabulary.begin() + 1, vocabulary.begin() + 4);
  question.metric = "all_found";
  question.max_new_tokens = 50;
  const Sample empty = ruler_frame(
      request,
      "Below is a text of coded words. Keep track of how often each of them occurs, and find the "
      "three that occur most often.\n\n",
      std::move(question));
  return fit_sample(fit_plan(request, kLeastWords), request.count_tokens, [&](int64_t words) {
    std::vector<std::string_view> list;
    for (size_t rank = 1; rank <= vocabulary.size(); ++rank) {
      const double share = 1 / (static_cast<double>(rank * rank) * kZeta2);
      const auto repeats = static_cast<size_t>(static_cast<double>(words) * share);
      list.insert(list.end(), repeats, vocabulary[rank - 1]);
    }
    SeededRandom(random).shuffle(list);
    Sample full = empty;
    for (const std::string_view word : list) {
      if (!full.context.empty()) full.context += ' ';
      full.context += word;
    }
    return full;
  });
}

}  // namespace kvasir::eval
