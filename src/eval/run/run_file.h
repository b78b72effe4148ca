// The file of a long run: entries as they are done, the result at the end.
//
// While a run goes on, FILE.partial holds its identity and one JSON line for each finished entry;
// the same command continues it after an interruption. The finished result is written beside it and
// renamed, so FILE is complete or absent, and it is never overwritten. Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace kvasir::eval {

using Json = nlohmann::ordered_json;

/// JSON as text; bytes that are no UTF-8 (a cut character, a file's name) become U+FFFD.
std::string dump_json(const Json& json, int indent = -1);

class RunFile {
 public:
  /// Begins or continues the run that ends in `path`; an empty path keeps everything in memory.
  /// `identity` is what makes two runs the same: model, settings, samples. Fails with one line if
  /// `path` holds a finished result, a partial file belongs to another run or another process is
  /// at it, or nothing can be written there.
  static Result<RunFile> open(const std::string& path, const Json& identity);

  /// The entry called `key` from this run or one that was interrupted; null if it is not done.
  const Json* find(const std::string& key) const;
  size_t n_found() const { return entries_.size(); }
  /// Seconds that interrupted runs spent.
  double seconds_before() const { return seconds_before_; }

  /// Notes a finished entry; `seconds` is the work it took. Fails with one line on a full disk.
  Result<void> add(const std::string& key, Json entry, double seconds);

  /// Writes the result and removes the partial file.
  Result<void> finish(const Json& result);

 private:
  Result<void> lock();
  Result<void> read_partial(const Json& identity);
  Result<void> append(const Json& line);

  std::string path_;
  std::shared_ptr<void> lock_;  // of the partial file, while this lives
  std::map<std::string, Json> entries_;
  double seconds_before_ = 0;
};

}  // namespace kvasir::eval
