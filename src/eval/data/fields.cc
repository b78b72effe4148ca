#include "eval/data/fields.h"

#include <algorithm>
#include <set>
#include <utility>

#include "eval/data/line_reader.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::json;

// A value as an error shows it: its beginning, in ASCII.
std::string shown(const Json* value) {
  if (value == nullptr) return "nothing";
  static constexpr size_t kShown = 40;
  const std::string text = value->dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
}

bool is_filled_text(const Json& value) {
  return value.is_string() && !value.get_ref<const std::string&>().empty();
}

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

// How deep arrays and objects lie in one another, whether or not the text is JSON.
size_t nesting(const std::string& text) {
  size_t depth = 0;
  size_t deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if ((c == ']' || c == '}') && depth > 0) --depth;
  }
  return deepest;
}

std::string place(const std::string& path, int64_t line) {
  return path + ":" + std::to_string(line) + ": ";
}

Result<Json> parse(const LineReader& reader, const std::string& line) {
  const std::string where = place(reader.path(), reader.line_number());
  static constexpr size_t kDeepest = 64;  // what is deeper could exhaust the stack
  if (nesting(line) > kDeepest) {
    return Error{where + "arrays or objects more than " + std::to_string(kDeepest) +
                 " deep, the most that is allowed"};
  }
  try {
    Json value = Json::parse(line);
    if (value.is_object()) return value;
    return Error{where + "found " + shown(&value) + ", expected a JSON object"};
  } catch (const Json::parse_error& error) {
    return Error{where + "not JSON at byte " + std::to_string(error.byte) +
                 ", expected a JSON object on each line"};
  } catch (const Json::exception&) {  // a number out of range
    return Error{where + "a number that is too large, expected a JSON object on each line"};
  }
}

// The name that is there, or the first one, for the error.
std::string_view name_found(const Fields& fields, std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    if (fields.find({name}) != nullptr) return name;
  }
  return *names.begin();
}

}  // namespace

const Json* Fields::find(std::initializer_list<std::string_view> names) const {
  for (const auto name : names) {
    const auto found = object_->find(name);
    if (found != object_->end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

Error Fields::wrong(std::string_view name, std::string_view expected) const {
  return Error{place(path_, line_) + "field '" + prefix_ + std::string(name) + "': found " +
               shown(find({name})) + ", expected " + std::string(expected)};
}

Result<std::string> Fields::text(std::initializer_list<std::string_view> names) const {
  const Json* value = find(names);
  if (value == nullptr || !value->is_string()) return wrong(name_found(*this, names), "a string");
  return value->get<std::string>();
}

Result<std::string> Fields::filled_text(std::initializer_list<std::string_view> names) const {
  const Json* value = find(names);
  if (value == nullptr || !is_filled_text(*value)) {
    return wrong(name_found(*this, names), "a string that is not empty");
  }
  return value->get<std::string>();
}

Result<std::string> Fields::text_or_number(std::initializer_list<std::string_view> names) const {
  const Json* value = find(names);
  if (value != nullptr && value->is_number()) return value->dump();
  if (value != nullptr && is_filled_text(*value)) return value->get<std::string>();
  return wrong(name_found(*this, names), "a string that is not empty or a number");
}

Result<std::vector<std::string>> Fields::texts(std::string_view name) const {
  const Json* value = find({name});
  bool right = value != nullptr && value->is_array() && !value->empty();
  for (size_t i = 0; right && i < value->size(); ++i) right = (*value)[i].is_string();
  if (!right) return wrong(name, "an array of at least one string");
  return value->get<std::vector<std::string>>();
}

Result<int64_t> Fields::count(std::string_view name) const {
  const Json* value = find({name});
  const bool whole = value != nullptr && value->is_number_integer();
  // A number above the largest signed one would turn negative.
  if (!whole || value->get<int64_t>() < 0) return wrong(name, "a whole number from 0 on");
  return value->get<int64_t>();
}

Result<std::vector<Fields>> Fields::objects(std::string_view name) const {
  const Json* value = find({name});
  bool right = value != nullptr && value->is_array() && !value->empty();
  for (size_t i = 0; right && i < value->size(); ++i) right = (*value)[i].is_object();
  if (!right) return wrong(name, "an array of at least one object");
  std::vector<Fields> fields;
  for (const auto& object : *value) {
    fields.emplace_back(object, path_, line_);
    fields.back().prefix_ =
        prefix_ + std::string(name) + "[" + std::to_string(fields.size() - 1) + "].";
  }
  return fields;
}

Result<std::vector<Sample>> read_samples(const std::string& path, size_t limit,
                                         const MakeSample& make) {
  auto reader = LineReader::open(path);
  if (!reader) return Error{reader.error()};
  std::vector<Sample> samples;
  std::set<std::pair<std::string, std::string>> seen;
  std::string line;
  while (limit == 0 || samples.size() < limit) {
    const auto more = reader.value().next(line);
    if (!more) return Error{more.error()};
    if (!more.value()) break;
    if (is_blank(line)) continue;
    const auto object = parse(reader.value(), line);
    if (!object) return Error{object.error()};
    auto sample = make(Fields(object.value(), path, reader.value().line_number()));
    if (!sample) return Error{sample.error()};
    const std::string id = sample.value().id;
    for (int copy = 2; !seen.emplace(sample.value().task, sample.value().id).second; ++copy) {
      sample.value().id = id + "#" + std::to_string(copy);
    }
    samples.push_back(std::move(sample.value()));
  }
  if (samples.empty()) return Error{path + " is empty, expected a JSON object on each line"};
  return samples;
}

}  // namespace kvasir::eval
