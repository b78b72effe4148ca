#include "eval/metrics/metric.h"

#include <algorithm>
#include <array>

#include "eval/metrics/code.h"
#include "eval/metrics/labels.h"
#include "eval/metrics/overlap.h"
#include "eval/metrics/rouge.h"

namespace kvasir::eval {
namespace {

constexpr std::array<Metric, 15> kMetrics = {{
    {"all_found", "share of the references that occur in the answer", score_all_found},
    {"any_found", "whether any reference occurs in the answer", score_any_found},
    {"f1", "F1 of shared words", score_f1},
    {"f1_zh", "F1 of shared characters (LongBench's own cuts words with jieba)", score_f1_zh},
    {"rouge_l", "F of ROUGE-L as in the Python package rouge", score_rouge_l},
    {"rouge_l_zh", "the same by characters (LongBench's own cuts words with jieba)",
     score_rouge_l_zh},
    {"class_match", "1 / classes named, if the right one is among them", score_class_match},
    {"retrieval", "share of the numbers named that are the right paragraph's", score_retrieval},
    {"retrieval_zh", "the same for Chinese references", score_retrieval_zh},
    {"count", "share of the numbers named that are right", score_count},
    {"code_edit", "edit similarity of the first line of code", score_code_edit},
    {"exact", "equal but for case, punctuation and articles", score_exact},
    {"boxed", "whether the last \\boxed{} is right", score_boxed},
    {"first_number", "whether the first number is right", score_first_number},
    {"choice", "whether the letter chosen is right", score_choice},
}};

}  // namespace

std::span<const Metric> metrics() { return kMetrics; }

const Metric* find_metric(std::string_view name) {
  const auto found = std::find_if(kMetrics.begin(), kMetrics.end(),
                                  [&](const Metric& metric) { return metric.name == name; });
  return found == kMetrics.end() ? nullptr : &*found;
}

}  // namespace kvasir::eval
