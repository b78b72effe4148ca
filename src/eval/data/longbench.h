// LongBench and LongBench-E: one JSON object a line, as its authors publish them.
//
// Fields: dataset, _id, context, input, answers, length, language, all_classes. A file may hold
// several tasks. Each line becomes a sample with one question; the part of the prompt before
// {context} becomes its instructions, the part behind it the question. Tags: length, language, and
// length_bin ("0-4k", "4-8k", "8k+") for LongBench-E.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "eval/data/data_set.h"

namespace kvasir::eval {

Result<std::vector<Sample>> load_longbench(const std::string& path, const DataOptions& options);

/// Takes the 13 tasks of LongBench-E only; a name with "_e" at its end is taken without.
Result<std::vector<Sample>> load_longbench_e(const std::string& path, const DataOptions& options);

/// The bin of a length in words: below 4,000, below 8,000, and from there on.
std::string_view length_bin(int64_t length);

}  // namespace kvasir::eval
