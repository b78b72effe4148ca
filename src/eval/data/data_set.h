// The data sets that people have on disk, by name.
//
// Knows files and texts; knows no model. A new data set is one loader and one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval/tasks/sample.h"

namespace kvasir::eval {

struct DataOptions {
  /// LongBench only: a JSON object of prompts by task with {context} and {input}, such as
  /// LongBench's own dataset2prompt.json; empty: our own wording. Scores that are to be compared
  /// with published ones need the official prompts.
  std::string prompts_path;
  /// LongBench only: a JSON object of new tokens by task, such as LongBench's dataset2maxlen.json.
  std::string max_new_tokens_path;
  std::string task;            ///< SCBench only: the task; empty: the file's name says it
  int32_t max_new_tokens = 0;  ///< of every question; 0: what the data set says
  size_t limit = 0;            ///< samples at most, the first of the file; 0: all
};

struct DataSet {
  std::string_view name;  ///< "longbench", "scbench", ...
  std::string_view text;  ///< what the file holds, for people
  Result<std::vector<Sample>> (*load)(const std::string& path, const DataOptions& options);
};

/// All data sets, in the order in which they are shown.
std::span<const DataSet> data_sets();

/// The data set called `name`, or null.
const DataSet* find_data_set(std::string_view name);

/// The samples of a file. A sample's instructions, context and question text follow one another
/// as they are, without anything between. Fails with one line that names the file, the line, the
/// field and what was expected, or the name that is no data set's.
Result<std::vector<Sample>> load_data(std::string_view name, const std::string& path,
                                      const DataOptions& options);

}  // namespace kvasir::eval
