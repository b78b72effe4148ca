#include "eval/report/test_results.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPerCell = 10;

Json head(const std::string& kind, const Json& settings) {
  return {{"schema", 1},
          {"kind", kind},
          {"kvasir", "0.1.0"},
          {"command", "eval " + kind},
          {"model", {{"name", "tiny"}, {"file", "tiny.gguf"}, {"description", "d"}, {"bytes", 7}}},
          {"machine", {{"cpu", "cpu"}, {"threads", 2}, {"kernels", "AVX2"}}},
          {"began", "2025-01-01T00:00:00Z"},
          {"seconds", 12.5},
          {"settings", settings}};
}

Json setting(const std::string& name, const std::string& flags) {
  return {{"name", name}, {"flags", flags}};
}

Json times(double mean) { return {{"p50", mean}, {"p95", 2 * mean}, {"mean", mean}}; }

Json confidence() {
  return {{"mean", 0.5}, {"above_tau", 0.25}, {"tau", 0.75}, {"histogram", {1, 2, 0, 1}}};
}

Json fidelity_set(const std::string& name, const std::string& flags, double kl, double mib) {
  const double bytes = mib * 1048576;
  return {{"name", name},
          {"kl", {{"mean", kl}, {"median", kl / 2}, {"p99", 9 * kl}, {"exact", true}}},
          {"same_top", 0.9},
          {"ppl", 11.5},
          {"ppl_reference", 11.0},
          {"tokens", 200},
          {"kv",
           {{"flags", flags},
            {"bytes_per_token", bytes / 300},
            {"bytes_peak", 2 * bytes},
            {"bytes_mean", bytes},
            {"bytes_full", 64 * 1048576},
            {"live_mean", 128},
            {"evicted", 1000}}},
          {"curve",
           {{{"position", 100},
             {"tokens", 100},
             {"kl", kl},
             {"ppl", 11},
             {"ppl_reference", 11},
             {"live", 128},
             {"bytes", bytes}}}},
          {"trace",
           {{{"position", 100}, {"live", 128}, {"bytes", bytes}, {"c", 0.5}},
            {{"position", 101}, {"live", 64}, {"bytes", bytes}, {"c", nullptr}}}},
          {"confidence", confidence()},
          {"step_ms",
           {{"total", times(10)},
            {"attention", times(2)},
            {"append", times(1)},
            {"metadata", times(1)},
            {"compaction", times(1)},
            {"confidence", times(1)},
            {"rest", times(4)}}}};
}

/// The scores and flips that fit the samples of one needle.
void add_scores(Json& result, const std::string& task, const std::string& setting, int right,
                double low, double high) {
  result["scores"].push_back({{"setting", setting},
                              {"task", task},
                              {"tags", Json::object()},
                              {"n", 4 * kPerCell},
                              {"mean", right / (4.0 * kPerCell)},
                              {"low", low},
                              {"high", high},
                              {"bytes_mean", setting == "full" ? 4e6 : 1e6}});
  for (const int length : {1000, 2000}) {
    for (const int depth : {0, 100}) {
      result["scores"].push_back({{"setting", setting},
                                  {"task", task},
                                  {"tags", {{"length", length}, {"depth", depth}}},
                                  {"n", kPerCell},
                                  {"mean", right / (4.0 * kPerCell)},
                                  {"low", low},
                                  {"high", high},
                                  {"bytes_mean", 1e6}});
    }
  }
}

void add_samples(Json& result, const std::string& task, const std::string& setting, int right) {
  for (int i = 0; i < 4 * kPerCell; ++i) {
    const bool is_error = setting == "window-128" && i == 0;
    Json sample = {{"setting", setting},
                   {"task", task},
                   {"id", std::to_string(i)},
                   {"question", "q"},
                   {"tags", {{"length", 1000}, {"depth", 0}}},
                   {"status", is_error ? "error" : "ok"},
                   {"score", i < right ? 1.0 : 0.0},
                   {"n_context", 990},
                   {"bytes", 1e6}};
    if (is_error) {
      sample["score"] = nullptr;
      sample["error"] = "too long";
    }
    result["samples"].push_back(std::move(sample));
  }
}

}  // namespace

Json fidelity_result() {
  Json result = head("fidelity", {setting("full", "--kv-policy none"),
                                  setting("conf-128", "--kv-policy conf --kv-budget 128"),
                                  setting("window-128", "--kv-policy=window --kv-budget=128"),
                                  setting("window-512", "--kv-policy window --kv-budget 512")});
  result["text"] = {{"name", "kjv"}, {"tokens", 300}, {"prefix", 100}};
  result["floor"] = {{"kl", 0.002}, {"flash_attention_off", 0.002}, {"ubatch_64", 0.001}};
  result["sets"] = {
      fidelity_set("conf-128", "--kv-policy conf --kv-budget 128", 0.003, 4),
      fidelity_set("window-128", "--kv-policy=window --kv-budget=128", 0.2, 3),
      fidelity_set("window-512", "--kv-policy window --kv-budget 512", 0.1, 16),
  };
  return result;
}

Json scored_result(const std::string& kind) {
  Json result = head(kind, {setting("full", ""), setting("conf-128", "--kv-policy conf"),
                            setting("window-128", "--kv-policy window --kv-budget 128")});
  for (const char* list : {"samples", "scores", "flips"}) result[list] = Json::array();
  add_samples(result, kind, "full", 40);
  add_samples(result, kind, "conf-128", 36);
  add_samples(result, kind, "window-128", 0);
  add_scores(result, kind, "full", 40, 0.91, 1);
  add_scores(result, kind, "conf-128", 36, 0.77, 0.96);
  add_scores(result, kind, "window-128", 0, 0, 0.09);
  result["flips"].push_back(
      {{"setting", "conf-128"}, {"task", kind}, {"n", 40}, {"to_wrong", 4}, {"to_right", 0}});
  if (kind == "agent") {
    for (Json& sample : result["samples"]) {
      sample.update({{"turns", 5}, {"facts_needed", 3}, {"facts_lost", 1}});
    }
  }
  return result;
}

Json needle_result() { return scored_result("needle"); }

Json premise_result() {
  Json result = head("premise", Json::array({setting("full", "")}));
  result["hidden"] = 64;
  for (int i = 0; i < 30; ++i) {
    result["points"].push_back({{"position", 100 + i},
                                {"kl", i == 0 ? 0 : 0.01 * i},
                                {"c", i / 30.0},
                                {"entropy", 1},
                                {"p1", 0.5},
                                {"margin", 1}});
  }
  result["correlations"] = Json::array();
  result["correlations"].push_back({{"signal", "c"},
                                    {"temperature", 1.0},
                                    {"n", 30},
                                    {"pearson", -0.31},
                                    {"low", -0.42},
                                    {"high", -0.18},
                                    {"spearman", -0.3}});
  Json at_one = confidence();
  at_one["temperature"] = 1.0;
  result["confidence"] = Json::array({at_one});
  return result;
}

namespace {

Json neighbours_layer(int layer, double far, double ratio, double rank) {
  const auto distances = [](double share) {
    return Json{{"far", share}, {"chance", 0.9}, {"counts", {10, 20, 70}}};
  };
  const auto lengths = [](double whole) {
    return Json{{"whole", whole}, {"k", whole / 2}, {"v", whole * 1.5}};
  };
  Json json = {{"layer", layer},
               {"tokens", 111},
               {"references", 11},
               {"distances",
                {{"earlier", distances(far)},
                 {"reference", distances(0.7)},
                 {"references", distances(0.8)}}},
               {"length_ratio",
                {{"nearest", lengths(ratio)},
                 {"mean", lengths(0.75)},
                 {"local", lengths(1.2)},
                 {"random", lengths(0.9)}}},
               {"k_share", {{"lengths", 0.5}, {"nearest", 0.75}, {"random", 0.25}}},
               {"spectra", Json::array()}};
  for (const char* of : {"tokens", "residuals"}) {
    for (const char* part : {"whole", "k", "v"}) {
      for (const bool centred : {false, true}) {
        const bool left = std::string(of) == "residuals";
        json["spectra"].push_back({{"part", part},
                                   {"of", of},
                                   {"centred", centred},
                                   {"effective_rank", left      ? rank
                                                      : centred ? 20
                                                                : 4},
                                   {"energy", {0.25, left ? 0.5 : 0.75, 1}}});
      }
    }
  }
  return json;
}

}  // namespace

Json neighbours_result() {
  Json result = head("neighbours", Json::array({setting("full", "")}));
  result["text"] = {{"name", "kjv"}, {"tokens", 111}, {"prefix", 111}};
  result["references"] = {{"stride", 10}, {"neighbours", 4}, {"sinks", 4}};
  result["model_layers"] = 6;
  result["distance_ends"] = {4, 16};
  result["directions"] = {1, 8, 32};
  result["layers"] = {neighbours_layer(0, 0.75, 0.5, 40), neighbours_layer(5, 0.5, 1.25, 2)};
  return result;
}

Json fidelity_of(const std::vector<HandMadeSet>& sets) {
  Json settings = Json::array({setting("full", "")});
  Json made = Json::array();
  for (const HandMadeSet& set : sets) {
    settings.push_back(setting(set.name, set.flags));
    made.push_back(fidelity_set(set.name, set.flags, 0.1, 1));
    made.back()["ppl"] = set.ppl;
  }
  Json result = head("fidelity", settings);
  result["text"] = {{"name", "kjv"}, {"tokens", 300}, {"prefix", 100}};
  result["floor"] = {{"kl", 0.002}};
  result["sets"] = made;
  return result;
}

Json methods_fidelity(bool published_order) {
  std::vector<HandMadeSet> sets = {
      {"window", "--kv-policy window", 34.37},
      {"scissorhands", "--kv-policy scissorhands", 31.94},
      {"h2o", "--kv-policy h2o", 31.78},
      {"snapkv", "--kv-policy snapkv", 31.41},
      {"conf, int8-channel", "--kv-policy conf --kv-format int8-channel", 31.26},
      {"pyramidkv", "--kv-policy pyramidkv", 31.09},
      {"conf", "--kv-policy conf", 30.92},
      {"conf, int8-channel, pyramid",
       "--kv-policy conf --kv-format int8-channel --kv-pyramid 0.5,96", 30.48},
  };
  for (HandMadeSet& set : sets) set.ppl = published_order ? set.ppl : 100 - set.ppl;
  Json result = fidelity_of(sets);
  result["methods"] = 256;
  result["sets"].back()["kv"]["bytes_mean"] = 1e6;
  result["reference"] = {
      {"name", "full"}, {"ppl", 11}, {"bytes_end", 64e6}, {"step_ms", {{"total", times(15)}}}};
  return result;
}

Json methods_needle(int conf, int h2o, int window) {
  Json result =
      head("needle", {setting("full", ""), setting("conf", "--kv-policy conf"),
                      setting("h2o", "--kv-policy h2o"), setting("window", "--kv-policy window")});
  result["methods"] = 256;
  for (const char* list : {"samples", "scores", "flips"}) result[list] = Json::array();
  const auto add = [&](const char* name, int right) {
    add_samples(result, "needle", name, right);
    add_scores(result, "needle", name, right, 0.9 * right / 40, 0.1 + 0.9 * right / 40);
  };
  add("full", 40);
  add("conf", conf);
  add("h2o", h2o);
  add("window", window);
  return result;
}

std::vector<Json> all_results() {
  std::vector<Json> results = {fidelity_result(), premise_result(), neighbours_result()};
  for (const char* kind : {"needle", "ruler", "kvretrieval", "manyshot", "dataset", "agent"}) {
    results.push_back(scored_result(kind));
  }
  return results;
}

}  // namespace kvasir::eval
