#include "eval/paired_report.h"

#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "eval/statistics.h"

namespace kvasir::eval {
namespace {

[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...) {
  char buffer[512];
  va_list args;
  va_start(args, format);
  vsnprintf(buffer, sizeof(buffer), format, args);
  va_end(args);
  return buffer;
}

// Milliseconds of one step: a whole chunk in prefill, one token in decode.
double step_ms(const PairedSamples& samples, const std::vector<double>& seconds) {
  return 1000 * median(seconds) / (samples.is_prefill ? 1 : samples.tokens);
}

std::string test_name(const PairedSamples& samples) {
  return (samples.is_prefill ? "pp" : "tg") + std::to_string(samples.tokens) + " @ d" +
         std::to_string(samples.depth);
}

}  // namespace

std::vector<AttentionTime> attention_time(const std::vector<PairedSamples>& all,
                                          const PairedSamples& samples) {
  if (samples.depth == 0) return {};
  for (const auto& base : all) {
    if (base.depth != 0 || base.is_prefill != samples.is_prefill) continue;
    AttentionTime time;
    time.a = step_ms(samples, samples.a) - step_ms(base, base.a);
    time.b = step_ms(samples, samples.b) - step_ms(base, base.b);
    time.ratio = time.a / time.b;
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
  out += "cpu: " + setup.cpu + text(", %d threads, ubatch %d\n", setup.n_threads, setup.n_ubatch);
  out +=
      setup.b + ": " + (setup.b_flags.empty() ? "f16, every token kept" : setup.b_flags) + "\n\n";
  out += "| test | " + setup.a + " t/s | " + setup.b + " t/s | ratio | range of pairs | " +
         setup.a + " attention ms | " + setup.b + " attention ms | ratio |\n";
  out += "|---|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const auto& samples : all) {
    const Ratio ratio = speed_ratio(samples);
    out += text("| %s | %.2f | %.2f | %.3f | %.3f - %.3f |", test_name(samples).c_str(),
                tokens_per_second(samples, samples.a), tokens_per_second(samples, samples.b),
                ratio.median, ratio.low, ratio.high);
    const auto attention = attention_time(all, samples);
    out += attention.empty() ? " | | |\n"
                             : text(" %.2f | %.2f | %.2f |\n", attention[0].a, attention[0].b,
                                    attention[0].ratio);
  }
  out += "\nMedians; the ratio is the median over " +
         std::to_string(all.empty() ? 0 : all[0].a.size()) +
         " pairs timed in turns. Attention: a chunk (pp) or a token (tg) beyond its cost at depth "
         "0.\n";
  for (const auto& samples : all) {
    if (is_steady(all, samples)) continue;
    out += "Not steady: " + test_name(samples) + "; the machine was busy, repeat it.\n";
  }
  if (setup.b_peak_bytes > 0) {
    out += text("Cache of %s: %.1f MB at its peak.\n", setup.b.c_str(),
                static_cast<double>(setup.b_peak_bytes) / 1e6);
  }
  return out;
}

std::string to_json(const PairedSetup& setup, const std::vector<PairedSamples>& all) {
  nlohmann::ordered_json tests = nlohmann::ordered_json::array();
  for (const auto& samples : all) {
    const Ratio ratio = speed_ratio(samples);
    nlohmann::ordered_json test = {
        {"test", samples.is_prefill ? "prefill" : "decode"},
        {"tokens", samples.tokens},
        {"depth", samples.depth},
        {setup.a,
         {{"tokens_per_second", tokens_per_second(samples, samples.a)}, {"seconds", samples.a}}},
        {setup.b,
         {{"tokens_per_second", tokens_per_second(samples, samples.b)}, {"seconds", samples.b}}},
        {"ratio", {{"median", ratio.median}, {"min", ratio.low}, {"max", ratio.high}}},
        {"steady", is_steady(all, samples)},
    };
    for (const auto& time : attention_time(all, samples)) {
      test["attention_ms"] = {{setup.a, time.a}, {setup.b, time.b}, {"ratio", time.ratio}};
    }
    tests.push_back(std::move(test));
  }
  const nlohmann::ordered_json json = {
      {"model", setup.model},
      {"description", setup.description},
      {"cpu", setup.cpu},
      {"threads", setup.n_threads},
      {"ubatch", setup.n_ubatch},
      {"flags", setup.b_flags},
      {"kv_bytes_peak", setup.b_peak_bytes},
      {"tests", std::move(tests)},
  };
  return json.dump(2) + "\n";
}

}  // namespace kvasir::eval
