#include "eval/report/method_view.h"

#include <vector>

#include "eval/report/numbers.h"
#include "eval/report/result_view.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

struct PaperName {
  Method method;
  const char* name;
};

// Names as the papers print them; what is not here is shown without one.
const std::vector<PaperName>& paper_names() {
  static const std::vector<PaperName> names = {
      {{"none"}, "full"},
      {{"window"}, "sliding"},
      {{"streaming"}, "StreamingLLM"},
      {{"h2o"}, "H2O"},
      {{"scissorhands"}, "Scissorhands"},
      {{"snapkv"}, "SnapKV"},
      {{"pyramidkv"}, "PyramidKV"},
      {{"tova"}, "TOVA"},
      {{"keydiff"}, "KeyDiff"},
      {{"conf"}, "CONF-KV (FP16)"},
      {{"conf", "int8-channel"}, "CONF-KV+INT8"},
      {{"conf", "int8-channel", true}, "CONF-KV-L"},
  };
  return names;
}

}  // namespace

Method method_of(const std::string& flags) {
  Method method;
  method.policy = flag_value(flags, "--kv-policy").value_or("none");
  method.format = flag_value(flags, "--kv-format").value_or("f16");
  method.pyramid = flag_value(flags, "--kv-pyramid").has_value();
  method.schedule = flag_value(flags, "--kv-schedule").has_value();
  return method;
}

std::string setting_of(const Json& result, const Method& method) {
  for (const std::string& name : setting_names(result)) {
    if (name != reference_of(result) && method_of(flags_of(result, name)) == method) return name;
  }
  return "";
}

const Json* find_set(const Json& result, const Method& method) {
  for (const Json& set : result.at("sets")) {
    if (method_of(words_text(set.at("kv").at("flags"))) == method) return &set;
  }
  return nullptr;
}

std::string paper_name(const Method& method) {
  for (const PaperName& known : paper_names()) {
    if (known.method == method) return known.name;
  }
  return "";
}

const Json* first_of_kind(std::span<const Json> results, std::string_view kind) {
  const Json* first = nullptr;
  for (const Json& result : results) {
    if (kind_of(result) != kind) continue;
    if (result.contains("methods")) return &result;
    if (first == nullptr) first = &result;
  }
  return first;
}

const Json* main_fidelity(std::span<const Json> results) {
  const Json* first = first_of_kind(results, "fidelity");
  return first != nullptr && first->contains("methods") ? first : nullptr;
}

std::string source_text(const Json& result) {
  std::string text = result.at("model").at("name");
  const auto about = result.find("text");
  if (about != result.end() && about->is_object() && about->contains("name")) {
    text.append(", ").append(about->at("name").get<std::string>());
  }
  if (kind_of(result) == "fidelity" && !result.at("sets").empty()) {
    text.append(", ").append(count_text(result.at("sets")[0].at("tokens").get<double>()));
    text.append(" rows");
  } else if (has_scores(result) && !result.at("scores").empty()) {
    double n = 0;
    for (const Json& score : result.at("scores")) {
      if (score.at("tags").empty() && score.at("setting") == reference_of(result)) {
        n += score.at("n").get<double>();
      }
    }
    text.append(", ").append(count_text(n)).append(" questions a setting");
  }
  return text;
}

}  // namespace kvasir::eval
