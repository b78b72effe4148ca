// SCBench: one context and several questions about it, one JSON object a line.
//
// Fields: context (for scbench_mf an array of numbers), multi_turns with input, answer and, for
// multiple choice, options, or task where a file mixes two; id, else the line's number. The task is
// the file's name, such as scbench_kv.jsonl, or the option `task`. Tags: turns, and kind where the
// file says a task of its own.
//
// The questions are SCBench's, what stands around them is our own wording. Metrics as in its
// script, with these differences: substrings are compared whatever the case; scbench_summary has
// ROUGE-L of whole texts where the script has rougeLsum; of multiple choice a letter only counts as
// a word. Not supported: scbench_repoqa and scbench_repoqa_and_kv, whose score parses source code.
#pragma once

#include <string>
#include <vector>

#include "eval/data/data_set.h"

namespace kvasir::eval {

Result<std::vector<Sample>> load_scbench(const std::string& path, const DataOptions& options);

}  // namespace kvasir::eval
