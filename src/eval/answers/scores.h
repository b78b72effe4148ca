// Answers become entries of a result: scores, means with intervals, flips
// (docs/evaluation-schema.md).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "eval/answers/answerer.h"
#include "eval/run/run_file.h"
#include "eval/run/settings.h"

namespace kvasir::eval {

/// One entry of `samples`. A metric that does not exist is the entry's error.
Json sample_entry(const Setting& setting, const Sample& sample, const Question& question,
                  const Answer& answer);

/// `scores`: each setting and task as a whole and by each of `groups`, lists of tags that samples
/// share. Entries that are not ok do not count.
Json score_entries(std::span<const Json> samples, std::span<const std::vector<std::string>> groups);

/// `flips`: questions right under `reference` and wrong under another setting, and back.
Json flip_entries(std::span<const Json> samples, const std::string& reference);

/// Lines for a terminal, at most 100 columns: scores by setting and task, with flips.
std::string score_table(const Json& scores, const Json& flips);

}  // namespace kvasir::eval
