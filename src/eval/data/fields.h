// One JSON object of a file, read field by field; what is wrong is named with file, line and field.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "eval/tasks/sample.h"

namespace kvasir::eval {

/// The fields of an object. Refers to the object, which must outlive it.
class Fields {
 public:
  Fields(const nlohmann::json& object, std::string path, int64_t line)
      : object_(&object), path_(std::move(path)), line_(line) {}

  const std::string& path() const { return path_; }
  int64_t line() const { return line_; }

  /// The value of the first of these names that is there and not null, else null.
  const nlohmann::json* find(std::initializer_list<std::string_view> names) const;

  /// A string; the first of `names` that is there.
  Result<std::string> text(std::initializer_list<std::string_view> names) const;
  /// A string that is not empty.
  Result<std::string> filled_text(std::initializer_list<std::string_view> names) const;
  /// A string that is not empty or a number, as text.
  Result<std::string> text_or_number(std::initializer_list<std::string_view> names) const;
  /// At least one string.
  Result<std::vector<std::string>> texts(std::string_view name) const;
  /// A whole number from 0 on.
  Result<int64_t> count(std::string_view name) const;
  /// At least one object, each as fields whose names begin with "name[i].".
  Result<std::vector<Fields>> objects(std::string_view name) const;

  /// "PATH:LINE: field 'NAME': found VALUE, expected WHAT".
  Error wrong(std::string_view name, std::string_view expected) const;

 private:
  const nlohmann::json* object_;
  std::string path_;
  int64_t line_;
  std::string prefix_;
};

/// Makes one sample of one line.
using MakeSample = std::function<Result<Sample>(const Fields&)>;

/// The samples of a file of JSON objects, one a line; empty lines do not count. At most `limit`, 0:
/// all. A sample whose task and id have been there already gets "#2", "#3", ... behind its id.
/// Fails with one line if the file, a line or a field is wrong, or if there is no sample.
Result<std::vector<Sample>> read_samples(const std::string& path, size_t limit,
                                         const MakeSample& make);

}  // namespace kvasir::eval
