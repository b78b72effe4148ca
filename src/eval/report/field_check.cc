#include "eval/report/field_check.h"

#include <cmath>

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLargestCount = 9007199254740992.0;  // 2^53: whole numbers are exact up to here
constexpr size_t kShownCharacters = 40;

bool is_count(const Json& value) {
  if (value.is_number_unsigned())
    return static_cast<double>(value.get<uint64_t>()) <= kLargestCount;
  if (value.is_number_integer()) return value.get<int64_t>() >= 0;
  if (!value.is_number_float()) return false;
  const auto number = value.get<double>();
  return number >= 0 && number <= kLargestCount && number == std::floor(number);
}

bool is_between(const Json& value, double low, double high) {
  if (!value.is_number()) return false;
  const auto number = value.get<double>();
  return std::isfinite(number) && number >= low && number <= high;
}

bool are_texts(const Json& value) {
  for (const Json& item : value) {
    if (!item.is_string()) return false;
  }
  return true;
}

bool fits(const Json& value, FieldType type) {
  switch (type) {
    case FieldType::kObject:
      return value.is_object();
    case FieldType::kArray:
      return value.is_array();
    case FieldType::kText:
      return value.is_string();
    case FieldType::kName:
      return value.is_string() && !value.get_ref<const std::string&>().empty();
    case FieldType::kNumber:
      return is_between(value, -HUGE_VAL, HUGE_VAL);
    case FieldType::kAmount:
      return is_between(value, 0, HUGE_VAL);
    case FieldType::kShare:
      return is_between(value, 0, 1);
    case FieldType::kSigned:
      return is_between(value, -1, 1);
    case FieldType::kCount:
      return is_count(value);
    case FieldType::kTruth:
      return value.is_boolean();
    case FieldType::kWords:
      return value.is_string() || (value.is_array() && are_texts(value));
    case FieldType::kFacts:
      return value.is_array() || is_count(value);
  }
  return false;
}

const char* words_for(FieldType type) {
  switch (type) {
    case FieldType::kObject:
      return "an object";
    case FieldType::kArray:
      return "an array";
    case FieldType::kText:
      return "a text";
    case FieldType::kName:
      return "a text that is not empty";
    case FieldType::kNumber:
      return "a number";
    case FieldType::kAmount:
      return "a number from 0 on";
    case FieldType::kShare:
      return "a number from 0 to 1";
    case FieldType::kSigned:
      return "a number from -1 to 1";
    case FieldType::kCount:
      return "a whole number from 0 on";
    case FieldType::kTruth:
      return "true or false";
    case FieldType::kWords:
      return "a text or an array of texts";
    case FieldType::kFacts:
      return "a whole number from 0 on or an array";
  }
  return "";
}

}  // namespace

std::string child_path(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

std::string item_path(const std::string& path, size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

std::string describe_value(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  if (value.is_string()) {
    std::string text = value.get<std::string>();
    if (text.size() > kShownCharacters) text = text.substr(0, kShownCharacters) + "...";
    return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
  }
  return value.dump();
}

Result<void> FieldCheck::result() const {
  if (!error_.empty()) return Error{error_};
  return {};
}

bool FieldCheck::complain(const std::string& path, const std::string& found,
                          std::string_view expected) {
  if (error_.empty()) {
    error_ = name_ + ": " + (path.empty() ? "" : path + ": ") + "found " + found + ", expected " +
             std::string(expected);
  }
  return false;
}

bool FieldCheck::field(const Json& object, const std::string& path, const FieldRule& rule) {
  const auto found = object.find(rule.name);
  if (found == object.end()) {
    return rule.presence == FieldRule::Presence::kOptional ||
           complain(child_path(path, rule.name), "nothing", words_for(rule.type));
  }
  if (found->is_null() && rule.presence != FieldRule::Presence::kRequired) return true;
  return fits(*found, rule.type) ||
         complain(child_path(path, rule.name), describe_value(*found), words_for(rule.type));
}

bool FieldCheck::object(const Json& value, const std::string& path,
                        std::initializer_list<FieldRule> rules) {
  if (!ok()) return false;
  if (!value.is_object()) return complain(path, describe_value(value), "an object");
  for (const FieldRule& rule : rules) {
    if (!field(value, path, rule)) return false;
  }
  return true;
}

bool FieldCheck::objects(const Json& value, const std::string& path, const char* name,
                         std::initializer_list<FieldRule> rules) {
  const std::string list_path = child_path(path, name);
  size_t index = 0;
  for (const Json& item : value.at(name)) {
    if (!object(item, item_path(list_path, index), rules)) return false;
    ++index;
  }
  return ok();
}

bool FieldCheck::counts(const Json& value, const std::string& path, size_t longest) {
  if (!ok()) return false;
  if (value.empty() || value.size() > longest) {
    return complain(path, describe_value(value), "1 to " + std::to_string(longest) + " numbers");
  }
  for (size_t i = 0; i < value.size(); ++i) {
    if (!is_count(value[i])) {
      return complain(item_path(path, i), describe_value(value[i]), "a whole number from 0 on");
    }
  }
  return true;
}

}  // namespace kvasir::eval
