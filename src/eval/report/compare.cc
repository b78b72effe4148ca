#include "eval/report/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "eval/report/neighbours_view.h"
#include "eval/report/numbers.h"
#include "eval/report/result_view.h"
#include "eval/report/results.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kColumns = 100;

/// Cut to `width` characters of UTF-8, the last one a full stop if it was longer; control
/// characters, which could move a terminal's cursor, become "?".
std::string fitted(const std::string& text, size_t width) {
  std::string out;
  size_t characters = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool continues = (byte & 0xC0) == 0x80;
    if (!continues && ++characters > width) {
      while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xC0) == 0x80)
        out.pop_back();
      if (!out.empty()) out.back() = '.';
      return out;
    }
    out += byte < 0x20 || byte == 0x7F ? '?' : c;
  }
  return out + std::string(width - characters, ' ');
}

std::string right(const std::string& text, size_t width) {
  return text.size() >= width ? text.substr(0, width)
                              : std::string(width - text.size(), ' ') + text;
}

void add_line(std::string& out, std::string line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
  out += line + "\n";
}

std::string quoted_json(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

/// A question of a sample of a task, whatever the setting.
using QuestionKey = std::tuple<std::string, std::string, std::string>;

QuestionKey key_of(const Json& sample) {
  return {sample.at("task"), sample.at("id"), sample.at("question")};
}

std::map<QuestionKey, double> context_lengths(const Json& result) {
  std::map<QuestionKey, double> lengths;
  for (const Json& sample : result.at("samples")) {
    lengths.emplace(key_of(sample), number_or(sample, "n_context", -1));
  }
  return lengths;
}

/// One line of what differs, "" if nothing does.
std::string different_questions(const Json& a, const Json& b, const CompareOptions& options) {
  const auto in_a = context_lengths(a);
  const auto in_b = context_lengths(b);
  const auto missing = [](const auto& from, const auto& in, const std::string& name) {
    for (const auto& [key, length] : from) {
      if (in.contains(key)) continue;
      return "question " + quoted_json(std::get<2>(key)) + " of " + quoted_json(std::get<0>(key)) +
             ", id " + quoted_json(std::get<1>(key)) + ", is not in " + name;
    }
    return std::string();
  };
  if (auto text = missing(in_a, in_b, options.name_b); !text.empty()) return text;
  if (auto text = missing(in_b, in_a, options.name_a); !text.empty()) return text;
  for (const auto& [key, length] : in_a) {
    if (length == in_b.at(key) || length < 0 || in_b.at(key) < 0) continue;
    return "context of " + quoted_json(std::get<0>(key)) + ", id " + quoted_json(std::get<1>(key)) +
           ", has " + count_text(length) + " and " + count_text(in_b.at(key)) + " tokens";
  }
  return "";
}

std::string field_difference(const Json& a, const Json& b, const char* object, const char* name) {
  const auto value_in = [&](const Json& result) {
    const Json found = result.value(object, Json::object());
    return found.is_object() ? found.value(name, Json()) : Json();
  };
  const Json in_a = value_in(a);
  const Json in_b = value_in(b);
  if (in_a == in_b || in_a.is_null() || in_b.is_null()) return "";
  return std::string(object) + "." + name + " is " + quoted_json(in_a) + " and " +
         quoted_json(in_b);
}

/// What makes the two incomparable, "" if nothing does.
std::string difference(const Json& a, const Json& b, const CompareOptions& options) {
  for (const char* name : {"name", "description", "bytes"}) {
    if (auto text = field_difference(a, b, "model", name); !text.empty()) return text;
  }
  const Json how = a.value("protocol", Json::object());
  if (how.is_object()) {
    for (const auto& [name, value] : how.items()) {
      if (auto text = field_difference(a, b, "protocol", name.c_str()); !text.empty()) return text;
    }
  }
  if (has_scores(a)) return different_questions(a, b, options);
  for (const char* name : {"name", "tokens", "prefix"}) {
    if (auto text = field_difference(a, b, "text", name); !text.empty()) return text;
  }
  if (kind_of(a) == "premise" && a.at("hidden") != b.at("hidden")) {
    return "hidden is " + quoted_json(a.at("hidden")) + " and " + quoted_json(b.at("hidden"));
  }
  for (const char* name : {"stride", "neighbours", "sinks"}) {
    if (kind_of(a) != "neighbours") break;
    if (auto text = field_difference(a, b, "references", name); !text.empty()) return text;
  }
  return "";
}

/// Names that both have, in the order of a; the others are said.
std::vector<std::string> shared_settings(const Json& a, const Json& b, std::string& out) {
  const auto in_a = setting_names(a);
  const auto in_b = setting_names(b);
  const auto has = [](const auto& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<std::string> shared;
  for (const std::string& name : in_a) {
    if (!has(in_b, name)) {
      add_line(out, "only in A: " + fitted(name, kColumns - 11));
      continue;
    }
    shared.push_back(name);
    if (flags_of(a, name) == flags_of(b, name)) continue;
    add_line(out, "other flags: " + fitted(name, kColumns - 13));
    add_line(out, "  A: " + fitted(flags_of(a, name), kColumns - 5));
    add_line(out, "  B: " + fitted(flags_of(b, name), kColumns - 5));
  }
  for (const std::string& name : in_b) {
    if (!has(in_a, name)) add_line(out, "only in B: " + fitted(name, kColumns - 11));
  }
  return shared;
}

const Json* find_set(const Json& result, const std::string& name) {
  for (const Json& set : result.at("sets")) {
    if (set.at("name") == name) return &set;
  }
  return nullptr;
}

/// Two values and whether the difference is more than the floor can explain.
void add_kl_row(std::string& out, const std::string& name, const Json& a, const Json& b,
                double floor) {
  const double kl_a = a.at("kl").at("mean");
  const double kl_b = b.at("kl").at("mean");
  std::string verdict = "within floor";
  if (std::max(kl_a, kl_b) >= 2 * floor && std::abs(kl_a - kl_b) > floor) {
    verdict = kl_b < kl_a ? "B nearer" : "A nearer";
  }
  const auto pair = [](const std::string& x, const std::string& y, size_t width) {
    return right(x, width) + right(y, width);
  };
  add_line(out, fitted(name, 20) + pair(kl_text(kl_a, floor), kl_text(kl_b, floor), 10) +
                    pair(fixed_text(100 * a.at("same_top").get<double>(), 1),
                         fixed_text(100 * b.at("same_top").get<double>(), 1), 7) +
                    pair(number_text(a.at("ppl")), number_text(b.at("ppl")), 8) +
                    pair(mib_text(a.at("kv").at("bytes_mean")),
                         mib_text(b.at("kv").at("bytes_mean")), 8) +
                    "  " + verdict);
}

void compare_fidelity(const Json& a, const Json& b, const std::vector<std::string>& settings,
                      std::string& out) {
  const double floor =
      std::max(a.at("floor").at("kl").get<double>(), b.at("floor").at("kl").get<double>());
  add_line(out, fitted("setting", 20) + right("KL A", 10) + right("KL B", 10) + right("top% A", 7) +
                    right("B", 7) + right("ppl A", 8) + right("B", 8) + right("MiB A", 8) +
                    right("B", 8) + "  KL");
  for (const std::string& name : settings) {
    const Json* in_a = find_set(a, name);
    const Json* in_b = find_set(b, name);
    if (in_a != nullptr && in_b != nullptr) add_kl_row(out, name, *in_a, *in_b, floor);
  }
  out += "KL: mean, nats; the larger floor is " + number_text(floor) +
         "; differences up to it are \"within floor\".\n";
}

struct Flips {
  int both = 0;
  int to_wrong = 0;
  int to_right = 0;
};

/// By setting and task; from a to b. Right means a score of at least 0.5.
std::map<std::pair<std::string, std::string>, Flips> count_flips(const Json& a, const Json& b) {
  std::map<std::pair<std::string, QuestionKey>, double> scores;
  for (const Json& sample : a.at("samples")) {
    if (sample.at("status") != "ok") continue;
    scores[{sample.at("setting"), key_of(sample)}] = sample.at("score");
  }
  std::map<std::pair<std::string, std::string>, Flips> flips;
  for (const Json& sample : b.at("samples")) {
    if (sample.at("status") != "ok") continue;
    const auto found = scores.find({sample.at("setting"), key_of(sample)});
    if (found == scores.end()) continue;
    Flips& here = flips[{sample.at("setting"), sample.at("task")}];
    const bool was_right = found->second >= 0.5;
    const bool is_right = sample.at("score").get<double>() >= 0.5;
    ++here.both;
    here.to_wrong += was_right && !is_right ? 1 : 0;
    here.to_right += !was_right && is_right ? 1 : 0;
  }
  return flips;
}

std::string score_verdict(const Json& a, const Json& b) {
  for (const Json* score : {&a, &b}) {
    if (score->at("low").is_null() || score->at("high").is_null()) return "no interval";
  }
  const auto value = [](const Json& score, const char* name) {
    return score.at(name).get<double>();
  };
  if (value(b, "low") > value(a, "high")) return "B higher";
  if (value(b, "high") < value(a, "low")) return "B lower";
  return "overlap";
}

std::string both_mib(const Json& a, const Json& b) {
  const auto text = [](const Json& score) {
    const double bytes = number_or(score, "bytes_mean", -1);
    return right(bytes < 0 ? "" : mib_text(bytes), 7);
  };
  return text(a) + text(b);
}

void compare_scores(const Json& a, const Json& b, const std::vector<std::string>& settings,
                    std::string& out) {
  auto flips = count_flips(a, b);
  add_line(out, fitted("task", 15) + fitted(" setting", 14) + right("score A", 18) +
                    right("score B", 18) + right("MiB A", 7) + right("B", 7) + right("lost", 6) +
                    right("won", 6) + " 95 %");
  for (const std::string& task : tasks_of(a)) {
    for (const std::string& setting : settings) {
      const Json* in_a = find_score(a, setting, task, Json::object());
      const Json* in_b = find_score(b, setting, task, Json::object());
      if (in_a == nullptr || in_b == nullptr) continue;
      const Flips& flip = flips[{setting, task}];
      add_line(out, fitted(task, 15) + " " + fitted(setting, 13) + right(interval_text(*in_a), 18) +
                        right(interval_text(*in_b), 18) + both_mib(*in_a, *in_b) +
                        right(std::to_string(flip.to_wrong), 6) +
                        right(std::to_string(flip.to_right), 6) + " " +
                        score_verdict(*in_a, *in_b));
    }
  }
  out += "lost, won: questions answered in both that became wrong or right from A to B.\n";
  out +=
      "95 %: whether the intervals overlap; where they do not, the difference is outside them.\n";
}

void compare_neighbours(const Json& a, const Json& b, std::string& out) {
  add_line(out, fitted("mean of the layers", 64) + right("A", 12) + right("B", 12));
  const auto in_a = main_figures(a);
  const auto in_b = main_figures(b);
  for (const MainFigure& figure : in_a) {
    const auto other = std::find_if(in_b.begin(), in_b.end(),
                                    [&](const auto& one) { return one.name == figure.name; });
    if (other == in_b.end()) continue;
    add_line(out, fitted(figure.name, 64) + right(figure.text(), 12) + right(other->text(), 12));
  }
}

void compare_premise(const Json& a, const Json& b, std::string& out) {
  add_line(out, fitted("signal", 16) + right("temp.", 8) + right("Pearson A", 24) +
                    right("Pearson B", 24) + "  95 %");
  const auto text = [](const Json& row) {
    const auto part = [&](const char* name) { return fixed_text(number_or(row, name, 0), 3); };
    if (row.at("pearson").is_null()) return std::string("none");
    return part("pearson") + " [" + part("low") + ", " + part("high") + "]";
  };
  for (const Json& in_a : a.at("correlations")) {
    for (const Json& in_b : b.at("correlations")) {
      if (in_a.at("signal") != in_b.at("signal") ||
          number_or(in_a, "temperature", 1) != number_or(in_b, "temperature", 1)) {
        continue;
      }
      add_line(out, fitted(in_a.at("signal"), 16) +
                        right(number_text(number_or(in_a, "temperature", 1)), 8) +
                        right(text(in_a), 24) + right(text(in_b), 24) + "  " +
                        score_verdict(in_a, in_b));
      break;
    }
  }
}

}  // namespace

Result<std::string> compare_results(const Json& a, const Json& b, const CompareOptions& options) {
  for (const auto* side : {&a, &b}) {
    const auto checked = check_result(*side, side == &a ? options.name_a : options.name_b);
    if (!checked) return Error{checked.error()};
  }
  if (kind_of(a) != kind_of(b)) {
    return Error{"found a " + kind_of(a) + " and a " + kind_of(b) +
                 " result, expected two of one kind"};
  }
  std::string out;
  add_line(out, "A: " + fitted(options.name_a, kColumns - 3));
  add_line(out, "B: " + fitted(options.name_b, kColumns - 3));
  if (const std::string text = difference(a, b, options); !text.empty()) {
    if (!options.allow_different) {
      return Error{text + "; expected two runs of the same (or leave to compare different ones)"};
    }
    add_line(out, "different: " + fitted(text, kColumns - 11));
  }
  for (const char* name : {"cpu", "threads", "kernels"}) {
    const std::string text = field_difference(a, b, "machine", name);
    if (!text.empty()) add_line(out, fitted("note: " + text, kColumns));
  }
  const auto settings = shared_settings(a, b, out);
  out += "\n";
  if (kind_of(a) == "fidelity") {
    compare_fidelity(a, b, settings, out);
  } else if (kind_of(a) == "premise") {
    compare_premise(a, b, out);
  } else if (kind_of(a) == "neighbours") {
    compare_neighbours(a, b, out);
  } else {
    compare_scores(a, b, settings, out);
  }
  return out;
}

}  // namespace kvasir::eval
