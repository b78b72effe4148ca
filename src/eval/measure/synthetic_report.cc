#include "eval/measure/synthetic_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "eval/measure/format_text.h"
#include "eval/statistics.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

struct Part {
  const char* name;
  double StepTimes::*value;
  bool each_step;  // false: need not happen in every step
};

constexpr Part kParts[] = {
    {"append", &StepTimes::append, true},       {"attention", &StepTimes::attention, true},
    {"selection", &StepTimes::selection, true}, {"ranking", &StepTimes::ranking, false},
    {"eviction", &StepTimes::eviction, false},  {"demotion", &StepTimes::demotion, false},
    {"step", &StepTimes::step, true},
};

std::vector<double> column(const SyntheticSamples& samples, const Part& part) {
  std::vector<double> values;
  for (const StepTimes& step : samples.steps) values.push_back(step.*part.value);
  return values;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

std::string parts_row(const StepTimes& times) {
  std::string row;
  for (const Part& part : kParts) row += format_text(" %.3f |", times.*part.value);
  return row;
}

Json parts_json(const StepTimes& times) {
  Json json;
  for (const Part& part : kParts) json[part.name] = times.*part.value;
  return json;
}

double share_of_read(const SyntheticSetup& setup, const SyntheticSamples& samples) {
  const double read = setup.machine.read_gb_per_s;
  return read > 0 ? attention_gb_per_s(samples) / read : 0;
}

std::string head(const SyntheticSetup& setup) {
  const SyntheticShape& shape = setup.shape;
  std::string out = format_text("synthetic rows: %d layers, %d heads, %d KV heads, head_dim %d\n",
                                shape.n_layers, shape.n_heads, shape.n_kv_heads, shape.head_dim);
  out += "cpu: " + setup.machine.cpu +
         format_text(", %d threads, kernels %s\n", setup.machine.n_threads, setup.kernels.c_str());
  return out + "cache: " + (setup.flags.empty() ? "f16, every token kept" : setup.flags) + "\n\n";
}

std::string slope_table(const std::vector<SyntheticSamples>& all) {
  if (all.size() < 2) return "";
  std::string out = "\n| ms per 100,000 rows more |";
  std::string line = "|---|";
  for (const Part& part : kParts) {
    out += std::string(" ") + part.name + " |";
    line += "---:|";
  }
  out += "\n" + line + "\n";
  for (size_t i = 1; i < all.size(); ++i) {
    out += format_text("| d%d - d%d |", all[i - 1].depth, all[i].depth);
    out += parts_row(slope(all[i - 1], all[i])) + "\n";
  }
  return out;
}

std::string foot(const SyntheticSetup& setup, const std::vector<SyntheticSamples>& all) {
  std::string out = format_text(
      "\nMilliseconds of one step, all layers: append, attention, selection and step are medians "
      "over %zu "
      "steps; ranking, eviction and demotion, which need not happen in each, are means. The first "
      "step, which evicts and demotes all that is due at once, stands apart. GB/s: allocated pages "
      "of K and V over attention's time.\n",
      all.empty() ? size_t{0} : all[0].steps.size());
  constexpr double kEven = 2;  // times the median
  for (const auto& samples : all) {
    const double usual = typical_step(samples).step, longest = longest_step(samples);
    if (longest <= kEven * usual) continue;
    out += format_text(
        "Steps differ at d%d: the longest took %.3f ms. Either work comes in bursts, or the "
        "machine "
        "was busy and the means say nothing.\n",
        samples.depth, longest);
  }
  out += setup.machine.read_line();
  int64_t peak = 0;
  for (const auto& samples : all) peak = std::max(peak, samples.kv_bytes_peak);
  out +=
      format_text("KV at its peak: %.1f MB. Resident memory of the process at its peak: %.1f MB.\n",
                  static_cast<double>(peak) / 1e6,
                  static_cast<double>(setup.machine.peak_resident_bytes) / 1e6);
  return out;
}

}  // namespace

StepTimes typical_step(const SyntheticSamples& samples) {
  StepTimes typical;
  if (samples.steps.empty()) return typical;
  for (const Part& part : kParts) {
    const std::vector<double> values = column(samples, part);
    typical.*part.value = part.each_step ? median(values) : mean(values);
  }
  return typical;
}

double longest_step(const SyntheticSamples& samples) {
  double longest = 0;
  for (const StepTimes& step : samples.steps) longest = std::max(longest, step.step);
  return longest;
}

double attention_gb_per_s(const SyntheticSamples& samples) {
  const double ms = typical_step(samples).attention;
  return ms > 0 ? 1e-6 * samples.read_bytes / ms : 0;
}

StepTimes slope(const SyntheticSamples& from, const SyntheticSamples& to) {
  const StepTimes a = typical_step(from), b = typical_step(to);
  StepTimes per;
  for (const Part& part : kParts) {
    per.*part.value = 1e5 * (b.*part.value - a.*part.value) / (to.depth - from.depth);
  }
  return per;
}

std::string to_markdown(const SyntheticSetup& setup, const std::vector<SyntheticSamples>& all) {
  std::string out = head(setup);
  out +=
      "| depth | rows read | append ms | attention ms | selection ms | ranking ms | eviction ms | "
      "demotion ms | "
      "step ms | first step ms | GB/s | of read | KV MB |\n"
      "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const auto& samples : all) {
    out += format_text("| %d | %.0f |", samples.depth, samples.live_tokens) +
           parts_row(typical_step(samples)) +
           format_text(" %.3f | %.2f | %.0f %% | %.1f |\n", samples.first.step,
                       attention_gb_per_s(samples), 100 * share_of_read(setup, samples),
                       static_cast<double>(samples.kv_bytes) / 1e6);
  }
  return out + slope_table(all) + foot(setup, all);
}

std::string to_json(const SyntheticSetup& setup, const std::vector<SyntheticSamples>& all) {
  Json tests = Json::array(), slopes = Json::array();
  for (size_t i = 0; i < all.size(); ++i) {
    const SyntheticSamples& samples = all[i];
    Json steps;
    for (const Part& part : kParts) steps[part.name] = column(samples, part);
    tests.push_back({{"depth", samples.depth},
                     {"rows_read", samples.live_tokens},
                     {"ms", parts_json(typical_step(samples))},
                     {"first_step_ms", parts_json(samples.first)},
                     {"longest_step_ms", longest_step(samples)},
                     {"read_bytes", samples.read_bytes},
                     {"attention_gb_per_s", attention_gb_per_s(samples)},
                     {"share_of_read", share_of_read(setup, samples)},
                     {"kv_bytes", samples.kv_bytes},
                     {"kv_bytes_peak", samples.kv_bytes_peak},
                     {"steps_ms", std::move(steps)}});
    if (i == 0) continue;
    slopes.push_back({{"from", all[i - 1].depth},
                      {"to", samples.depth},
                      {"ms_per_100000_rows", parts_json(slope(all[i - 1], samples))}});
  }
  const SyntheticShape& shape = setup.shape;
  Json json = {{"synthetic",
                {{"layers", shape.n_layers},
                 {"heads", shape.n_heads},
                 {"kv_heads", shape.n_kv_heads},
                 {"head_dim", shape.head_dim}}},
               {"kernels", setup.kernels},
               {"flags", setup.flags}};
  json.update(setup.machine.json());
  json["tests"] = std::move(tests);
  json["slopes"] = std::move(slopes);
  return json.dump(2) + "\n";
}

}  // namespace kvasir::eval
