#include "eval/data/data_set.h"

#include <algorithm>
#include <array>

#include "eval/data/aime.h"
#include "eval/data/longbench.h"
#include "eval/data/scbench.h"

namespace kvasir::eval {
namespace {

constexpr std::array<DataSet, 4> kDataSets = {{
    {"longbench", "a JSONL file of LongBench, one task or several", load_longbench},
    {"longbench_e", "a JSONL file of LongBench-E; scores by length bin", load_longbench_e},
    {"scbench", "a JSONL file of SCBench, named after its task", load_scbench},
    {"aime", "problems with whole-number answers as JSONL: id, problem, answer", load_aime},
}};

// One option that not every data set takes: refused rather than ignored.
Result<void> refuse(std::string_view name, const std::string& value, std::string_view option,
                    std::string_view taken_by) {
  if (value.empty() || name.starts_with(taken_by)) return {};
  return Error{std::string(option) + " is '" + value + "', but " + std::string(name) +
               " takes none: only " + std::string(taken_by) + " does"};
}

Result<void> check(std::string_view name, const DataOptions& options) {
  if (auto ok = refuse(name, options.prompts_path, "prompts_path", "longbench"); !ok) return ok;
  if (auto ok = refuse(name, options.max_new_tokens_path, "max_new_tokens_path", "longbench"); !ok)
    return ok;
  if (auto ok = refuse(name, options.task, "task", "scbench"); !ok) return ok;
  if (options.max_new_tokens < 0) {
    return Error{"max_new_tokens is " + std::to_string(options.max_new_tokens) +
                 ", expected 1 or more, or 0 for the data set's own"};
  }
  return {};
}

}  // namespace

std::span<const DataSet> data_sets() { return kDataSets; }

const DataSet* find_data_set(std::string_view name) {
  const auto found = std::find_if(kDataSets.begin(), kDataSets.end(),
                                  [&](const DataSet& set) { return set.name == name; });
  return found == kDataSets.end() ? nullptr : &*found;
}

Result<std::vector<Sample>> load_data(std::string_view name, const std::string& path,
                                      const DataOptions& options) {
  const DataSet* set = find_data_set(name);
  if (set == nullptr) {
    std::string known;
    for (const auto& each : kDataSets)
      known += (known.empty() ? "" : ", ") + std::string(each.name);
    return Error{"no data set '" + std::string(name) + "', expected one of: " + known};
  }
  if (auto ok = check(name, options); !ok) return Error{ok.error()};
  auto samples = set->load(path, options);
  if (!samples || options.max_new_tokens == 0) return samples;
  for (auto& sample : samples.value()) {
    for (auto& question : sample.questions) question.max_new_tokens = options.max_new_tokens;
  }
  return samples;
}

}  // namespace kvasir::eval
