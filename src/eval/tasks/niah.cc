#include "eval/tasks/niah.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "eval/tasks/fit.h"
#include "eval/tasks/haystack.h"

namespace kvasir::eval {
namespace {

// A needle before it has a place.
struct Needle {
  size_t key = 0;  // index
  std::string sentence;
};

// What is hidden and what is asked.
struct Hidden {
  std::vector<Needle> needles;  // in the order in which they stand
  std::vector<double> depths;   // of the needles, ascending
  std::vector<std::string> asked_keys;
  std::vector<std::string> references;
  double asked_depth = 0;  // of the first needle that is asked for
};

std::string needle_sentence(ValueKind kind, const std::string& key, const std::string& value) {
  return "One of the special magic " + noun_of(kind, true) + " for " + key + " is: " + value + ".";
}

// Sorted depths. Texts use RULER's 40 steps from 0 to 100 %, lists of lines any place.
std::vector<double> draw_depths(const NiahPlan& plan, size_t needles, SeededRandom& random) {
  if (plan.depth.has_value()) return {*plan.depth};
  std::vector<double> depths;
  constexpr size_t kSteps = 40;
  if (plan.haystack == HaystackKind::kEssay) {
    for (const size_t step : random.distinct(needles, kSteps)) {
      depths.push_back(std::round(100.0 * static_cast<double>(step) / (kSteps - 1)) / 100);
    }
  } else {
    for (size_t i = 0; i < needles; ++i) depths.push_back(random.share());
    std::sort(depths.begin(), depths.end());
  }
  return depths;
}

Result<Hidden> draw_hidden(const NiahPlan& plan, ValueSource& source) {
  Hidden hidden;
  std::vector<std::string> keys;
  std::vector<std::vector<std::string>> values(plan.keys);
  for (size_t k = 0; k < plan.keys; ++k) {
    Result<std::string> key = source.value(plan.key_kind);
    if (!key) return Error{key.error()};
    keys.push_back(std::move(key.value()));
    for (size_t v = 0; v < plan.values; ++v) {
      Result<std::string> value = source.value(plan.value_kind);
      if (!value) return Error{value.error()};
      hidden.needles.push_back(
          {.key = k, .sentence = needle_sentence(plan.value_kind, keys[k], value.value())});
      values[k].push_back(std::move(value.value()));
    }
  }
  source.random().shuffle(hidden.needles);
  hidden.depths = draw_depths(plan, hidden.needles.size(), source.random());

  const std::vector<size_t> asked = source.random().distinct(plan.queries, plan.keys);
  for (const size_t k : asked) {
    hidden.asked_keys.push_back(keys[k]);
    hidden.references.insert(hidden.references.end(), values[k].begin(), values[k].end());
  }
  const auto first = std::find_if(hidden.needles.begin(), hidden.needles.end(),
                                  [&](const Needle& needle) { return needle.key == asked[0]; });
  hidden.asked_depth = hidden.depths[static_cast<size_t>(first - hidden.needles.begin())];
  return hidden;
}

// "a", "a, and b", "a, b, and c".
std::string enumerate(const std::vector<std::string>& keys) {
  std::string text = keys.front();
  for (size_t i = 1; i < keys.size(); ++i) {
    text += (i + 1 == keys.size() ? ", and " : ", ") + keys[i];
  }
  return text;
}

Sample frame(const NiahPlan& plan, const Hidden& hidden) {
  const bool several = hidden.references.size() > 1;
  const std::string noun = noun_of(plan.value_kind, several);
  const std::string what = "special magic " + noun + " for " + enumerate(hidden.asked_keys) +
                           " mentioned in the provided text";
  Sample sample;
  sample.task = plan.task;
  sample.id = plan.id;
  sample.instructions = several ? "Some special magic " + noun +
                                      " are hidden in the text below. Remember them, you "
                                      "will be asked for them at the end.\n\n"
                                : "A special magic " + noun +
                                      " is hidden in the text below. Remember it, you will be "
                                      "asked for it at the end.\n\n";
  Question question;
  question.id.assign(1, '0');
  question.text = several ? "\n\nWhat are all the " + what + "?" : "\n\nWhat is the " + what + "?";
  question.answer_prefix = "The " + what + (several ? " are" : " is");
  question.references = hidden.references;
  question.metric = "all_found";
  question.max_new_tokens = plan.max_new_tokens;
  sample.questions.push_back(std::move(question));
  sample.tags["length"] = plan.length;
  sample.tags["tokens"] = 0;  // filled in by fit_sample
  sample.tags["depth"] = std::round(100 * hidden.asked_depth);
  sample.tags["seed"] = plan.seed;
  return sample;
}

std::vector<Placed> place(const Hidden& hidden) {
  std::vector<Placed> placed;
  for (size_t i = 0; i < hidden.needles.size(); ++i) {
    placed.push_back({.sentence = hidden.needles[i].sentence, .depth = hidden.depths[i]});
  }
  return placed;
}

// Needles that nobody asks for, drawn when they are needed first.
class OtherNeedles {
 public:
  OtherNeedles(const NiahPlan& plan, ValueSource source)
      : key_kind_(plan.key_kind), value_kind_(plan.value_kind), source_(std::move(source)) {}

  std::span<const std::string> take(int64_t count) {
    const auto wanted = static_cast<size_t>(count);
    while (lines_.size() < wanted && error_.empty()) {
      const Result<std::string> key = source_.value(key_kind_);
      const Result<std::string> value = source_.value(value_kind_);
      error_ = key ? value.error() : key.error();
      if (key && value) lines_.push_back(needle_sentence(value_kind_, key.value(), value.value()));
    }
    return std::span(lines_).first(std::min(wanted, lines_.size()));
  }

  const std::string& error() const { return error_; }

 private:
  ValueKind key_kind_;
  ValueKind value_kind_;
  ValueSource source_;
  std::vector<std::string> lines_;
  std::string error_;  // once a draw has failed
};

Result<Sample> fit_in_needles(const NiahPlan& plan, const Hidden& hidden, ValueSource source,
                              const CountTokens& count_tokens) {
  OtherNeedles others(plan, std::move(source));
  const Sample empty = frame(plan, hidden);
  const std::vector<Placed> placed = place(hidden);
  const FitPlan fit{.name = plan.task, .length = plan.length, .least = 1, .most = plan.length};
  Result<Sample> sample = fit_sample(fit, count_tokens, [&](int64_t lines) {
    Sample full = empty;
    full.context = insert_needles(others.take(lines), placed, "\n");
    return full;
  });
  if (!others.error().empty()) return Error{plan.task + ": " + others.error()};
  return sample;
}

}  // namespace

Result<Sample> make_niah(const NiahPlan& plan, const Material& material,
                         const CountTokens& count_tokens) {
  const bool is_essay = plan.haystack == HaystackKind::kEssay;
  if (is_essay && count_words(material.essay) == 0) {
    return Error{plan.task + ": found no essay text, expected one to hide needles in"};
  }
  const std::string_view text = is_essay ? material.essay : noise_text();
  ValueSource source(SeededRandom(plan.seed, plan.draws), material.words, text);
  const Result<Hidden> hidden = draw_hidden(plan, source);
  if (!hidden) return Error{plan.task + ": " + hidden.error()};
  if (plan.haystack == HaystackKind::kNeedles) {
    return fit_in_needles(plan, hidden.value(), std::move(source), count_tokens);
  }
  const SentenceSource sentences(text, source.random());
  const Sample empty = frame(plan, hidden.value());
  const std::vector<Placed> placed = place(hidden.value());
  // Fewer words than these make no text to hide in.
  const int64_t least = 8 * static_cast<int64_t>(placed.size());
  const FitPlan fit{.name = plan.task, .length = plan.length, .least = least, .most = plan.length};
  return fit_sample(fit, count_tokens, [&](int64_t words) {
    Sample full = empty;
    full.context = insert_needles(sentences.take(words), placed, " ");
    return full;
  });
}

}  // namespace kvasir::eval
