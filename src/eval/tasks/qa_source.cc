#include "eval/tasks/qa_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace kvasir::eval {
namespace {

using nlohmann::json;

// Reads members by path and keeps the first complaint; after one everything reads as empty.
class Reader {
 public:
  const std::string& error() const { return error_; }
  bool ok() const { return error_.empty(); }

  void complain(const std::string& path, const std::string& what) {
    if (ok()) error_ = path + ": " + what;
  }

  const json& elements(const json& value, const std::string& path) {
    return checked(value, path, value.is_array(), "an array", json::value_t::array);
  }
  const json& member(const json& object, const std::string& path, const char* key) {
    static const json kNothing;
    if (!object.is_object()) {
      complain(path, "found " + name_of(object) + ", expected an object");
      return kNothing;
    }
    const auto found = object.find(key);
    if (found != object.end()) return *found;
    complain(path.empty() ? key : path + "." + key, "missing");
    return kNothing;
  }
  std::string string(const json& value, const std::string& path) {
    if (value.is_string()) return value.get<std::string>();
    complain(path, "found " + name_of(value) + ", expected a string");
    return {};
  }

  // An array and a string that are members.
  const json& array_of(const json& object, const std::string& path, const char* key) {
    return elements(member(object, path, key), path.empty() ? key : path + "." + key);
  }
  std::string string_of(const json& object, const std::string& path, const char* key) {
    return string(member(object, path, key), path + "." + key);
  }

 private:
  static std::string name_of(const json& value) {
    const std::string name = value.type_name();
    if (value.is_null()) return name;
    return (value.is_array() || value.is_object() ? "an " : "a ") + name;
  }
  const json& checked(const json& value, const std::string& path, bool right,
                      const std::string& expected, json::value_t empty) {
    static const json kArray = json::array();
    if (right) return value;
    complain(path, "found " + name_of(value) + ", expected " + expected);
    return empty == json::value_t::array ? kArray : value;
  }

  std::string error_;
};

std::string at(const std::string& path, size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

// Documents by their text.
class Documents {
 public:
  size_t add(std::string text) {
    const auto [found, is_new] = known_.try_emplace(text, texts_.size());
    if (is_new) texts_.push_back(std::move(text));
    return found->second;
  }
  std::vector<std::string> take() { return std::move(texts_); }

 private:
  std::unordered_map<std::string, size_t> known_;
  std::vector<std::string> texts_;
};

template <typename T>
void add_once(std::vector<T>& values, T value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) {
    values.push_back(std::move(value));
  }
}

class SquadReader {
 public:
  Result<QaSource> read(const json& root) {
    const json& data = reader_.array_of(root, "", "data");
    for (size_t i = 0; i < data.size() && reader_.ok(); ++i) article(data[i], at("data", i));
    if (!reader_.ok()) return Error{reader_.error()};
    source_.documents = documents_.take();
    return std::move(source_);
  }

 private:
  void article(const json& value, const std::string& path) {
    const size_t first = source_.items.size();
    std::vector<size_t> all;
    const json& paragraphs = reader_.array_of(value, path, "paragraphs");
    for (size_t i = 0; i < paragraphs.size() && reader_.ok(); ++i) {
      const std::string place = at(path + ".paragraphs", i);
      const size_t document = documents_.add(reader_.string_of(paragraphs[i], place, "context"));
      add_once(all, document);
      const json& questions = reader_.array_of(paragraphs[i], place, "qas");
      for (size_t q = 0; q < questions.size() && reader_.ok(); ++q) {
        question(questions[q], at(place + ".qas", q), document);
      }
    }
    for (size_t i = first; i < source_.items.size(); ++i) {
      QaItem& item = source_.items[i];
      std::copy_if(all.begin(), all.end(), std::back_inserter(item.near),
                   [&](size_t document) { return document != item.gold[0]; });
    }
  }

  void question(const json& value, const std::string& path, size_t document) {
    QaItem item;
    item.question = reader_.string_of(value, path, "question");
    item.gold = {document};
    if (value.is_object() && value.contains("is_impossible")) {
      const json& impossible = value["is_impossible"];
      if (!impossible.is_boolean()) {
        reader_.complain(path + ".is_impossible", "expected true or false");
      } else if (impossible.get<bool>()) {
        return;
      }
    }
    const json& answers = reader_.array_of(value, path, "answers");
    for (size_t i = 0; i < answers.size() && reader_.ok(); ++i) {
      add_once(item.answers, reader_.string_of(answers[i], at(path + ".answers", i), "text"));
    }
    if (answers.empty()) reader_.complain(path + ".answers", "found none, expected one or more");
    source_.items.push_back(std::move(item));
  }

  Reader reader_;
  Documents documents_;
  QaSource source_;
};

class HotpotReader {
 public:
  Result<QaSource> read(const json& root) {
    for (size_t i = 0; i < root.size() && reader_.ok(); ++i) question(root[i], at("", i));
    if (!reader_.ok()) return Error{reader_.error()};
    source_.documents = documents_.take();
    return std::move(source_);
  }

 private:
  void question(const json& value, const std::string& path) {
    QaItem item;
    item.question = reader_.string_of(value, path, "question");
    item.answers = {reader_.string_of(value, path, "answer")};
    std::unordered_set<std::string> gold_titles;
    const json& facts = reader_.array_of(value, path, "supporting_facts");
    for (size_t i = 0; i < facts.size() && reader_.ok(); ++i) {
      gold_titles.insert(pair_title(facts[i], at(path + ".supporting_facts", i)));
    }
    const json& context = reader_.array_of(value, path, "context");
    for (size_t i = 0; i < context.size() && reader_.ok(); ++i) {
      paragraph(context[i], at(path + ".context", i), gold_titles, item);
    }
    if (item.gold.empty()) {
      reader_.complain(path + ".supporting_facts", "found no title of context among them");
    }
    source_.items.push_back(std::move(item));
  }

  // The title of [title, something].
  std::string pair_title(const json& value, const std::string& path) {
    if (value.is_array() && value.size() == 2) return reader_.string(value[0], at(path, 0));
    reader_.complain(path, "expected an array of a title and one more element");
    return {};
  }

  void paragraph(const json& value, const std::string& path,
                 const std::unordered_set<std::string>& gold_titles, QaItem& item) {
    const std::string title = pair_title(value, path);
    if (!reader_.ok()) return;
    const json& sentences = reader_.elements(value[1], at(path, 1));
    std::string text = title + "\n";
    for (size_t i = 0; i < sentences.size(); ++i) {
      text += reader_.string(sentences[i], at(at(path, 1), i));
    }
    const size_t document = documents_.add(std::move(text));
    add_once(gold_titles.count(title) > 0 ? item.gold : item.near, document);
  }

  Reader reader_;
  Documents documents_;
  QaSource source_;
};

Result<QaSource> read(const json& root) {
  if (root.is_array()) return HotpotReader().read(root);
  if (root.is_object() && root.contains("data")) return SquadReader().read(root);
  return Error{"expected an object with \"data\" (SQuAD) or an array (HotpotQA)"};
}

// What nlohmann says, without its own prefix.
std::string reason(const json::exception& error) {
  const std::string text = error.what();
  const size_t prefix = text.find("] ");
  return prefix == std::string::npos ? text : text.substr(prefix + 2);
}

}  // namespace

Result<QaSource> parse_qa(std::string_view text, const std::string& name) {
  json root;
  try {
    root = json::parse(text);
  } catch (const json::exception& error) {
    return Error{name + ": " + reason(error)};
  }
  Result<QaSource> source = read(root);
  if (!source) return Error{name + ": " + source.error()};
  if (source.value().items.empty()) return Error{name + ": found no question with an answer"};
  return source;
}

}  // namespace kvasir::eval
