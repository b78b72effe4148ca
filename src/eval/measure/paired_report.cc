#include "eval/measure/paired_report.h"

#include <nlohmann/json.hpp>

#include "eval/measure/format_text.h"
#include "eval/statistics.h"

namespace kvasir::eval {
namespace {

// Milliseconds of one step: a whole chunk in prefill, one token in decode.
double step_ms(const PairedSamples& samples, const std::vector<double>& seconds) {
  return 1000 * median(seconds) / (samples.is_prefill ? 1 : samples.tokens);
}

double gb_per_s(int64_t bytes, int64_t base_bytes, double ms) {
  return base_bytes > 0 && ms > 0 ? 1e-6 * static_cast<double>(bytes - base_bytes) / ms : 0;
}

// One cell: "12.34 (56 %)", or nothing where it is not known.
std::string gb_cell(const MachineFigures& machine, double gb_per_s) {
  if (gb_per_s <= 0) return " |";
  std::string cell = format_text(" %.2f", gb_per_s);
  if (machine.read_gb_per_s > 0) {
    cell += format_text(" (%.0f %%)", 100 * gb_per_s / machine.read_gb_per_s);
  }
  return cell + " |";
}

std::string table_row(const PairedSetup& setup, const std::vector<PairedSamples>& all,
                      const PairedSamples& samples) {
  const Ratio ratio = speed_ratio(samples);
  std::string row =
      format_text("| %s | %.2f | %.2f | %.3f | %.3f - %.3f |", test_name(samples).c_str(),
                  tokens_per_second(samples, samples.a), tokens_per_second(samples, samples.b),
                  ratio.median, ratio.low, ratio.high);
  const auto attention = attention_time(all, samples);
  if (attention.empty()) return row + " | | | | |\n";
  const AttentionTime& time = attention[0];
  row += format_text(" %.2f | %.2f | %.2f |", time.a, time.b, time.ratio);
  return row + gb_cell(setup.machine, time.a_gb_per_s) + gb_cell(setup.machine, time.b_gb_per_s) +
         "\n";
}

std::string table_foot(const PairedSetup& setup, const std::vector<PairedSamples>& all) {
  std::string out =
      "\nMedians; the ratio is the median over " +
      std::to_string(all.empty() ? 0 : all[0].a.size()) +
      " pairs timed in turns. tgN xB: B sequences at once, tokens of all of them. "
      "Attention: a chunk (pp) or a step (tg) beyond its cost at depth 0. GB/s: bytes "
      "of K and V that a step reads beyond those at depth 0, over that time (" +
      setup.a + ": f16 rows; " + setup.b + ": allocated pages)";
  out += setup.machine.read_gb_per_s > 0 ? ", and its share of the streaming read.\n" : ".\n";
  for (const auto& samples : all) {
    if (is_steady(all, samples)) continue;
    out += "Not steady: " + test_name(samples) + "; the machine was busy, repeat it.\n";
  }
  if (setup.machine.read_gb_per_s > 0) out += setup.machine.read_line();
  if (setup.b_peak_bytes > 0) {
    out += format_text("Cache of %s: %.1f MB at its peak.\n", setup.b.c_str(),
                       static_cast<double>(setup.b_peak_bytes) / 1e6);
  }
  if (setup.machine.peak_resident_bytes > 0) {
    out += format_text(
        "Resident memory of the process, both sides with weights: %.1f MB at its peak.\n",
        static_cast<double>(setup.machine.peak_resident_bytes) / 1e6);
  }
  return out;
}

nlohmann::ordered_json test_json(const PairedSetup& setup, const std::vector<PairedSamples>& all,
                                 const PairedSamples& samples) {
  const Ratio ratio = speed_ratio(samples);
  nlohmann::ordered_json test = {
      {"test", samples.is_prefill ? "prefill" : "decode"},
      {"tokens", samples.tokens},
      {"batch", samples.batch},
      {"depth", samples.depth},
      {setup.a,
       {{"tokens_per_second", tokens_per_second(samples, samples.a)}, {"seconds", samples.a}}},
      {setup.b,
       {{"tokens_per_second", tokens_per_second(samples, samples.b)}, {"seconds", samples.b}}},
      {"ratio", {{"median", ratio.median}, {"min", ratio.low}, {"max", ratio.high}}},
      {"steady", is_steady(all, samples)},
  };
  if (!samples.is_prefill) {
    test["read_bytes"] = {{setup.a, samples.a_bytes}, {setup.b, samples.b_bytes}};
  }
  for (const auto& time : attention_time(all, samples)) {
    test["attention_ms"] = {{setup.a, time.a}, {setup.b, time.b}, {"ratio", time.ratio}};
    if (samples.is_prefill) continue;
    const double read = setup.machine.read_gb_per_s;
    const auto share = [read](double gb) { return read > 0 ? gb / read : 0; };
    test["attention_gb_per_s"] = {{setup.a, time.a_gb_per_s}, {setup.b, time.b_gb_per_s}};
    test["share_of_read"] = {{setup.a, share(time.a_gb_per_s)}, {setup.b, share(time.b_gb_per_s)}};
  }
  return test;
}

}  // namespace

std::vector<AttentionTime> attention_time(const std::vector<PairedSamples>& all,
                                          const PairedSamples& samples) {
  if (samples.depth == 0) return {};
  for (const auto& base : all) {
    if (base.depth != 0 || !is_same_kind(base, samples)) continue;
    AttentionTime time;
    time.a = step_ms(samples, samples.a) - step_ms(base, base.a);
    time.b = step_ms(samples, samples.b) - step_ms(base, base.b);
    time.ratio = time.a / time.b;
    time.a_gb_per_s = gb_per_s(samples.a_bytes, base.a_bytes, time.a);
    time.b_gb_per_s = gb_per_s(samples.b_bytes, base.b_bytes, time.b);
    return {time};
  }
  return {};
}

bool is_steady(const std::vector<PairedSamples>& all, const PairedSamples& samples) {
  constexpr double kWidest = 1.5;
  const Ratio ratio = speed_ratio(samples);
  if (ratio.high > kWidest * ratio.low) return false;
  const auto attention = attention_time(all, samples);
  return attention.empty() || (attention[0].a > 0 && attention[0].b > 0);
}

std::string to_markdown(const PairedSetup& setup, const std::vector<PairedSamples>& all) {
  std::string out = "model: " + setup.model + " (" + setup.description + ")\n";
  out += "cpu: " + setup.machine.cpu +
         format_text(", %d threads, ubatch %d\n", setup.machine.n_threads, setup.n_ubatch);
  out +=
      setup.b + ": " + (setup.b_flags.empty() ? "f16, every token kept" : setup.b_flags) + "\n\n";
  out += "| test | " + setup.a + " t/s | " + setup.b + " t/s | ratio | range of pairs | " +
         setup.a + " attention ms | " + setup.b + " attention ms | ratio | " + setup.a +
         " GB/s | " + setup.b + " GB/s |\n";
  out += "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const auto& samples : all) out += table_row(setup, all, samples);
  return out + table_foot(setup, all);
}

std::string to_json(const PairedSetup& setup, const std::vector<PairedSamples>& all) {
  nlohmann::ordered_json tests = nlohmann::ordered_json::array();
  for (const auto& samples : all) tests.push_back(test_json(setup, all, samples));
  nlohmann::ordered_json json = {
      {"model", setup.model},   {"description", setup.description},    {"ubatch", setup.n_ubatch},
      {"flags", setup.b_flags}, {"kv_bytes_peak", setup.b_peak_bytes},
  };
  json.update(setup.machine.json());
  json["tests"] = std::move(tests);
  return json.dump(2) + "\n";
}

}  // namespace kvasir::eval
