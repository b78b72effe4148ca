// Fields of a JSON object checked against a list: there, of the right type, in the right range.
//
// Knows JSON only. The first wrong field is kept with its path, the others are not looked at.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvasir::eval {

enum class FieldType {
  kObject,
  kArray,
  kText,
  kName,    ///< a text that is not empty
  kNumber,  ///< any number
  kAmount,  ///< a number from 0 on
  kShare,   ///< a number from 0 to 1
  kSigned,  ///< a number from -1 to 1
  kCount,   ///< a whole number from 0 to 2^53
  kTruth,
  kWords,  ///< a text or an array of texts
  kFacts,  ///< a whole number from 0 on or an array, of which the length counts
};

struct FieldRule {
  const char* name;
  FieldType type;
  enum class Presence { kRequired, kOrNull, kOptional } presence = Presence::kRequired;
};

class FieldCheck {
 public:
  explicit FieldCheck(std::string_view name) : name_(name) {}

  bool ok() const { return error_.empty(); }
  Result<void> result() const;

  /// Checks that `value` is an object with these fields. `path` leads to it, "" to the whole.
  bool object(const nlohmann::ordered_json& value, const std::string& path,
              std::initializer_list<FieldRule> rules);
  /// The same for each element of the array `value[name]`, which must have passed as an array.
  bool objects(const nlohmann::ordered_json& value, const std::string& path, const char* name,
               std::initializer_list<FieldRule> rules);
  /// Checks that `value` is an array of whole numbers, 1 to `longest` of them.
  bool counts(const nlohmann::ordered_json& value, const std::string& path, size_t longest);

  /// Says what is wrong at `path`; returns false.
  bool complain(const std::string& path, const std::string& found, std::string_view expected);

 private:
  bool field(const nlohmann::ordered_json& object, const std::string& path, const FieldRule& rule);

  std::string name_;
  std::string error_;
};

/// "PATH.NAME", or NAME alone at the top.
std::string child_path(const std::string& path, std::string_view name);
/// "PATH[INDEX]".
std::string item_path(const std::string& path, size_t index);
/// What stands there, in a few words: a short scalar as it is, else "an object", "an array", ...
std::string describe_value(const nlohmann::ordered_json& value);

}  // namespace kvasir::eval
