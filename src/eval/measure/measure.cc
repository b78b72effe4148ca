#include "eval/measure/measure.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "device/device.h"
#include "device/openmp_for.h"
#include "eval/machine.h"
#include "eval/measure/capacity_report.h"
#include "eval/measure/machine_read.h"
#include "eval/measure/measure_flags.h"
#include "eval/measure/paired_report.h"
#include "eval/measure/rounds.h"
#include "eval/measure/synthetic_report.h"
#include "eval/session.h"
#include "eval/text.h"
#include "kernels/kernels.h"
#include "kvasir/kvasir.h"

namespace kvasir::eval {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int complain(const std::string& message, int code) {
  fprintf(stderr, "kvasir measure: %s\n", message.c_str());
  return code;
}

// What a measurement prints, in both forms.
struct Report {
  std::string markdown, json;
};

int print(const MeasureFlags& flags, const Report& report) {
  fputs((flags.output == "json" ? report.json : report.markdown).c_str(), stdout);
  if (flags.json_path.empty()) return 0;
  std::ofstream file(flags.json_path);
  file << report.json;
  file.close();
  return file ? 0 : complain("cannot write " + flags.json_path, kFailed);
}

// Runs `work` between two measurements of the streaming read, and fills `machine`.
template <typename Work>
auto beside_read(const MeasureFlags& flags, MachineFigures& machine, Work work) {
  device::OpenMpFor parallel;
  parallel.set_n_workers(flags.n_threads);
  machine.cpu = cpu_name();
  machine.n_threads = flags.n_threads;
  MachineRead read(parallel);
  read.measure();
  const PeakResident resident;
  auto result = work(parallel);
  machine.peak_resident_bytes = resident.bytes();
  read.measure();
  machine.take(read);
  return result;
}

std::string description_of(const llama_model& model) {
  char description[256] = "";
  llama_model_desc(&model, description, sizeof(description));
  return description;
}

PairedSetup describe(const std::string& path, const MeasureFlags& flags) {
  PairedSetup setup;
  setup.model = flags.model;
  setup.b = flags.control ? "stock again" : "kvasir";
  setup.b_flags = flags.kv_flags;
  setup.n_ubatch = flags.n_ubatch;
  auto model = load_model(path, nullptr);
  if (!model) return setup;
  setup.description = description_of(*model.value());
  return setup;
}

int measure_paired(const MeasureFlags& flags) {
  auto set = device::set_options(flags.options);
  if (!set) return complain(set.error(), kUsage);
  set_llama_log(flags.verbose);
  auto path = find_model(flags.model);
  if (!path) return complain(path.error(), kUsage);
  PairedSetup setup = describe(path.value(), flags);
  auto rounds = beside_read(flags, setup.machine,
                            [&](ParallelFor&) { return run_rounds(path.value(), flags); });
  if (!rounds) return complain(rounds.error(), kFailed);
  setup.b_peak_bytes = rounds.value().kv_bytes_peak;
  const auto& samples = rounds.value().samples;
  return print(flags, {to_markdown(setup, samples), to_json(setup, samples)});
}

Result<std::vector<CapacitySample>> run_capacity(const std::string& path, const MeasureFlags& flags,
                                                 std::string& description) {
  auto model = load_model(path, device::register_device());
  if (!model) return Error{model.error()};
  description = description_of(*model.value());
  Progress progress(capacity_units(flags.capacity) * static_cast<double>(flags.settings.size()));
  std::vector<CapacitySample> samples;
  for (const Setting& setting : flags.settings) {
    auto sample = measure_capacity(
        model.value(), setting, flags.capacity,
        [&](double units, const std::string& next) { progress.advance(units, next); });
    if (!sample) return Error{"setting '" + setting.name + "': " + sample.error()};
    samples.push_back(std::move(sample.value()));
  }
  return samples;
}

int measure_capacities(const MeasureFlags& flags) {
  set_llama_log(flags.verbose);
  auto path = find_model(flags.model);
  if (!path) return complain(path.error(), kUsage);
  CapacitySetup setup{flags.model, {}, {}, flags.capacity};
  auto samples = beside_read(flags, setup.machine, [&](ParallelFor&) {
    return run_capacity(path.value(), flags, setup.description);
  });
  if (!samples) return complain(samples.error(), kFailed);
  return print(flags, {to_markdown(setup, samples.value()), to_json(setup, samples.value())});
}

int measure_synthetic(const MeasureFlags& flags) {
  auto valid = validate(flags.options);
  if (!valid) return complain(valid.error(), kUsage);
  const SyntheticPlan& plan = flags.synthetic;
  auto possible = check_synthetic(plan, available_bytes());
  if (!possible) return complain(possible.error(), kUsage);
  SyntheticSetup setup{plan.shape, {}, kvasir_kernel_table(), flags.kv_flags};
  auto samples = beside_read(flags, setup.machine, [&](ParallelFor& parallel) {
    Progress progress(synthetic_units(plan));
    return run_synthetic(
        plan, *find_kernels(setup.kernels), parallel,
        [&](double units, const std::string& next) { progress.advance(units, next); });
  });
  if (!samples) return complain(samples.error(), kFailed);
  return print(flags, {to_markdown(setup, samples.value()), to_json(setup, samples.value())});
}

}  // namespace
}  // namespace kvasir::eval

int kvasir_measure(int argc, char** argv) {
  using namespace kvasir::eval;
  auto flags = parse_measure({argv + std::min(argc, 1), argv + argc});
  if (!flags) return complain(flags.error(), kUsage);
  if (!flags.value().help.empty()) {
    fputs(flags.value().help.c_str(), stdout);
    return 0;
  }
  if (flags.value().is_capacity) return measure_capacities(flags.value());
  return flags.value().is_synthetic ? measure_synthetic(flags.value())
                                    : measure_paired(flags.value());
}
