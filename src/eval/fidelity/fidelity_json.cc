#include "eval/fidelity/fidelity_json.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "eval/metrics/interval.h"
#include "eval/statistics.h"

namespace kvasir::eval {
namespace {

constexpr int kBins = 20;          // of the confidence histogram
constexpr size_t kCurveBins = 32;  // at most, over the positions
constexpr size_t kTraceSteps = 1024;
constexpr uint64_t kSeed = 1;  // of the bootstrap

template <typename Get>
std::vector<double> column(const std::vector<FidelityStep>& steps, Get get) {
  std::vector<double> values(steps.size());
  std::transform(steps.begin(), steps.end(), values.begin(),
                 [&](const FidelityStep& step) { return static_cast<double>(get(step)); });
  return values;
}

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double x : values) sum += x;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

Json curve_of(const std::vector<FidelityStep>& steps) {
  const size_t width = std::max<size_t>(1, (steps.size() + kCurveBins - 1) / kCurveBins);
  Json curve = Json::array();
  for (size_t from = 0; from < steps.size(); from += width) {
    const size_t n = std::min(width, steps.size() - from);
    double kl = 0, nll = 0, nll_reference = 0, live = 0, bytes = 0;
    for (size_t i = from; i < from + n; ++i) {
      kl += steps[i].row.kl;
      nll += steps[i].row.nll;
      nll_reference += steps[i].row.nll_reference;
      live += steps[i].live;
      bytes += static_cast<double>(steps[i].bytes);
    }
    const auto count = static_cast<double>(n);
    curve.push_back({{"position", steps[from].position},
                     {"tokens", n},
                     {"kl", kl / count},
                     {"ppl", std::exp(nll / count)},
                     {"ppl_reference", std::exp(nll_reference / count)},
                     {"live", live / count},
                     {"bytes", bytes / count}});
  }
  return curve;
}

Json trace_of(const std::vector<FidelityStep>& steps) {
  Json trace = Json::array();
  for (size_t i = 0; i < std::min(kTraceSteps, steps.size()); ++i) {
    trace.push_back({{"position", steps[i].position},
                     {"live", steps[i].live},
                     {"bytes", steps[i].bytes},
                     {"c", steps[i].c}});
  }
  return trace;
}

Json times_of(std::span<const double> values) {
  return {{"p50", quantile(values, 0.5)}, {"p95", quantile(values, 0.95)}, {"mean", mean(values)}};
}

// KL of a set with the interval of its mean: rows are drawn in runs, since neighbours are alike.
Json kl_json(std::span<const double> kl, bool exact) {
  const Interval interval = block_bootstrap_interval(kl, kSeed);
  return {{"mean", interval.mean}, {"low", interval.low},       {"high", interval.high},
          {"median", median(kl)},  {"p99", quantile(kl, 0.99)}, {"exact", exact}};
}

// Perplexity over the reference's: exp of the mean difference of the tokens' surprises.
Json ratio_json(const std::vector<FidelityStep>& steps) {
  const auto more = column(steps, [](auto& s) { return s.row.nll - s.row.nll_reference; });
  const Interval interval = block_bootstrap_interval(more, kSeed);
  return {{"mean", std::exp(interval.mean)},
          {"low", std::exp(interval.low)},
          {"high", std::exp(interval.high)}};
}

// "0.132-0.178"; empty where a result from before intervals has none.
std::string range_text(const Json& of, int digits) {
  if (!of.contains("low") || !of.contains("high")) return "";
  char text[48];
  std::snprintf(text, sizeof(text), "%.*g-%.*g", digits, of.at("low").get<double>(), digits,
                of.at("high").get<double>());
  return text;
}

Json step_times(std::vector<FidelityStep> steps) {
  // The first step follows the prompt and holds the eviction of all of it; it is in no clock.
  if (steps.size() > 1) steps.erase(steps.begin());
  const auto rest = [](const FidelityStep& s) {
    return s.ms - s.attention_ms - s.append_ms - s.metadata_ms - s.compaction_ms - s.confidence_ms;
  };
  return {{"total", times_of(column(steps, [](auto& s) { return s.ms; }))},
          {"attention", times_of(column(steps, [](auto& s) { return s.attention_ms; }))},
          {"append", times_of(column(steps, [](auto& s) { return s.append_ms; }))},
          {"metadata", times_of(column(steps, [](auto& s) { return s.metadata_ms; }))},
          {"compaction", times_of(column(steps, [](auto& s) { return s.compaction_ms; }))},
          {"confidence", times_of(column(steps, [](auto& s) { return s.confidence_ms; }))},
          {"rest", times_of(column(steps, rest))}};
}

}  // namespace

Json confidence_json(std::span<const double> values, double tau) {
  std::vector<int64_t> histogram(kBins);
  int64_t above = 0;
  for (const double c : values) {
    ++histogram[static_cast<size_t>(std::clamp(static_cast<int>(c * kBins), 0, kBins - 1))];
    above += c >= tau ? 1 : 0;
  }
  const auto n = static_cast<double>(std::max<size_t>(1, values.size()));
  return {{"mean", mean(values)},
          {"above_tau", static_cast<double>(above) / n},
          {"tau", tau},
          {"histogram", histogram}};
}

Json fidelity_set(const Setting& setting, const FidelityPlan& plan, const FidelityRun& run,
                  bool exact, int64_t bytes_full) {
  const auto& steps = run.steps;
  const auto kl = column(steps, [](auto& s) { return s.row.kl; });
  const auto bytes = column(steps, [](auto& s) { return s.bytes; });
  const auto n_read = static_cast<double>(plan.tokens.size());
  Json kv = {{"flags", setting.flags()},
             {"bytes_per_token", static_cast<double>(run.counts.bytes) / n_read},
             {"bytes_peak", run.counts.bytes_peak},
             {"bytes_mean", mean(bytes)},
             {"bytes_full", bytes_full},
             {"live_mean", mean(column(steps, [](auto& s) { return s.live; }))},
             {"evicted", run.counts.evicted}};
  return {
      {"name", setting.name},
      {"kl", kl_json(kl, exact)},
      {"same_top", mean(column(steps, [](auto& s) { return s.row.same_top ? 1 : 0; }))},
      {"ppl", std::exp(mean(column(steps, [](auto& s) { return s.row.nll; })))},
      {"ppl_reference", std::exp(mean(column(steps, [](auto& s) { return s.row.nll_reference; })))},
      {"ppl_ratio", ratio_json(steps)},
      {"tokens", steps.size()},
      {"kv", kv},
      {"curve", curve_of(steps)},
      {"trace", trace_of(steps)},
      {"confidence",
       confidence_json(column(steps, [](auto& s) { return s.c; }), setting.options.params.tau)},
      {"step_ms", step_times(steps)}};
}

Json fidelity_reference(const std::string& name, const WholeRows& rows,
                        std::span<const double> step_ms, int64_t bytes_full) {
  std::vector<double> nll(static_cast<size_t>(rows.n_rows()));
  for (int32_t i = 0; i < rows.n_rows(); ++i) {
    nll[static_cast<size_t>(i)] = rows.compare(i, rows.row(i)).nll;
  }
  // The first step follows the prompt, as in a set.
  const auto timed = step_ms.subspan(step_ms.size() > 1 ? 1 : 0);
  return {{"name", name},
          {"ppl", std::exp(mean(nll))},
          {"tokens", rows.n_rows()},
          {"bytes_end", bytes_full},
          {"step_ms", {{"total", times_of(timed)}}}};
}

std::string fidelity_table(const Json& sets, double floor) {
  char line[256];
  std::string out;
  std::snprintf(line, sizeof(line), "%-24s %9s %13s %8s %6s %7s %9s %8s %8s %8s\n", "setting",
                "KL mean", "95 %", "KL 99 %", "top %", "ppl", "x, 95 %", "MiB mean", "MiB peak",
                "ms/token");
  out += line;
  for (const Json& set : sets) {
    const Json& kl = set.at("kl");
    const double mean_kl = kl.at("mean");
    char mean_text[32];
    if (mean_kl != 0 && mean_kl < 2 * floor) {
      std::snprintf(mean_text, sizeof(mean_text), "<= floor");
    } else {
      std::snprintf(mean_text, sizeof(mean_text), "%.3g", mean_kl);
    }
    const Json& kv = set.at("kv");
    const std::string ratio = set.contains("ppl_ratio") ? range_text(set.at("ppl_ratio"), 3) : "";
    std::snprintf(line, sizeof(line), "%-24.24s %9s %13s %8.3g %6.2f %7.4g %9s %8.1f %8.1f %8.2f\n",
                  set.at("name").get<std::string>().c_str(), mean_text, range_text(kl, 2).c_str(),
                  kl.at("p99").get<double>(), 100 * set.at("same_top").get<double>(),
                  set.at("ppl").get<double>(), ratio.c_str(),
                  kv.at("bytes_mean").get<double>() / 1048576,
                  kv.at("bytes_peak").get<double>() / 1048576,
                  set.at("step_ms").at("total").at("p50").get<double>());
    out += line;
  }
  return out;
}

}  // namespace kvasir::eval
