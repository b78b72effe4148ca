#include "eval/measure/capacity_report.h"

#include <nlohmann/json.hpp>

#include "eval/measure/format_text.h"
#include "eval/statistics.h"

namespace kvasir::eval {
namespace {

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// A setting of which nothing fits shows what one sequence takes.
std::string table_row(const CapacitySample& sample) {
  std::string row = format_text("| %s | %d%s | %.1f | %.1f | %.0f |", sample.name.c_str(),
                                sample.n_sequences, sample.tried_all ? " or more" : "",
                                mib(sample.bytes), mib(sample.arrival_bytes), sample.live_tokens);
  if (sample.n_sequences == 0) return row + " | |\n";
  return row + format_text(" %.2f | %.1f |\n", 1000 * median(sample.step_seconds),
                           sample.tokens_per_second());
}

}  // namespace

std::string to_markdown(const CapacitySetup& setup, const std::vector<CapacitySample>& all) {
  const CapacityPlan& plan = setup.plan;
  std::string out = "model: " + setup.model + " (" + setup.description + ")\n";
  out += "cpu: " + setup.machine.cpu +
         format_text(", %d threads, ubatch %d\n", setup.machine.n_threads, plan.n_ubatch);
  out += format_text("budget: %.0f MiB, sequences of %d tokens\n\n", mib(plan.budget_bytes),
                     plan.depth);
  out +=
      "| setting | sequences | MiB | MiB more while one arrives | tokens a layer | step ms | "
      "tok/s |\n|---|---:|---:|---:|---:|---:|---:|\n";
  for (const CapacitySample& sample : all) out += table_row(sample);
  out += format_text(
      "\nMedians of %d steps, a token of each sequence; tok/s are those of all sequences. MiB: "
      "rows, "
      "metadata and workspace after them. Nothing is evicted to make room.\n",
      plan.steps);
  for (const CapacitySample& sample : all) out += "`" + sample.name + "`: " + sample.flags + "\n";
  return out + (setup.machine.read_gb_per_s > 0 ? setup.machine.read_line() : "");
}

std::string to_json(const CapacitySetup& setup, const std::vector<CapacitySample>& all) {
  nlohmann::ordered_json settings = nlohmann::ordered_json::array();
  for (const CapacitySample& sample : all) {
    settings.push_back({{"name", sample.name},
                        {"flags", sample.flags},
                        {"sequences", sample.n_sequences},
                        {"tried_all", sample.tried_all},
                        {"bytes", sample.bytes},
                        {"arrival_bytes", sample.arrival_bytes},
                        {"live_tokens", sample.live_tokens},
                        {"tokens_per_second", sample.tokens_per_second()},
                        {"step_seconds", sample.step_seconds}});
  }
  nlohmann::ordered_json json = {
      {"model", setup.model},          {"description", setup.description},
      {"ubatch", setup.plan.n_ubatch}, {"budget_bytes", setup.plan.budget_bytes},
      {"depth", setup.plan.depth},
  };
  json.update(setup.machine.json());
  json["settings"] = std::move(settings);
  return json.dump(2) + "\n";
}

}  // namespace kvasir::eval
