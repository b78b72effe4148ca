// RULER's questions on documents.
#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "eval/tasks/fit.h"
#include "eval/tasks/haystack.h"
#include "eval/tasks/qa_source.h"
#include "eval/tasks/ruler_makers.h"

namespace kvasir::eval {
namespace {

// All documents but the gold ones, in the order in which they are taken: first those near to the
// question, then the rest, both shuffled.
std::vector<size_t> distractors_of(const QaSource& source, const QaItem& item,
                                   SeededRandom& random) {
  std::unordered_set<size_t> placed(item.gold.begin(), item.gold.end());
  std::vector<size_t> near;
  for (const size_t document : item.near) {
    if (placed.insert(document).second) near.push_back(document);
  }
  std::vector<size_t> rest;
  for (size_t i = 0; i < source.documents.size(); ++i) {
    if (placed.count(i) == 0) rest.push_back(i);
  }
  random.shuffle(near);
  random.shuffle(rest);
  near.insert(near.end(), rest.begin(), rest.end());
  return near;
}

// The gold documents and `words` words of the others, numbered in a shuffled order.
std::string join_documents(const QaSource& source, const QaItem& item,
                           const std::vector<size_t>& distractors, int64_t words,
                           SeededRandom order) {
  std::vector<std::string_view> documents;
  for (const size_t document : item.gold) documents.emplace_back(source.documents[document]);
  for (size_t i = 0; i < distractors.size() && words > 0; ++i) {
    const std::string_view text = first_words(source.documents[distractors[i]], words);
    documents.push_back(text);
    words -= count_words(text);
  }
  order.shuffle(documents);
  std::string context;
  for (size_t i = 0; i < documents.size(); ++i) {
    if (i > 0) context += "\n\n";
    context += "Document " + std::to_string(i + 1) + ":\n" + std::string(documents[i]);
  }
  return context;
}

}  // namespace

Result<Sample> make_document_question(const RulerRequest& request, const QaSource* source) {
  if (source == nullptr || source->items.empty()) {
    return Error{std::string(request.task) +
                 ": found no questions, expected a file in the format of SQuAD or HotpotQA"};
  }
  const QaItem& item = source->items[static_cast<size_t>(request.seed % source->items.size())];
  SeededRandom random(request.seed, request.task);
  const std::vector<size_t> distractors = distractors_of(*source, item, random);

  Question question;
  question.text =
      "\n\nAnswer the question from the documents above, with the answer alone and no other "
      "words.\n\n"
      "Question: " +
      item.question;
  question.answer_prefix = "Answer:";
  question.references = item.answers;
  question.metric = "any_found";
  question.max_new_tokens = 32;
  const Sample empty = ruler_frame(
      request, "Read the documents below. A question about them follows at the end.\n\n",
      std::move(question));
  const FitPlan plan{.name = std::string(request.task),
                     .length = request.length,
                     .least = 0,
                     .most = request.length};
  return fit_sample(plan, request.count_tokens, [&](int64_t words) {
    Sample full = empty;
    full.context = join_documents(*source, item, distractors, words, random);
    return full;
  });
}

}  // namespace kvasir::eval
