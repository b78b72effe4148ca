#include "eval/measure/machine_read.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "eval/machine.h"
#include "eval/measure/format_text.h"
#include "eval/statistics.h"
#include "kernels/read_loop.h"

namespace kvasir::eval {
namespace {

constexpr int kPasses = 8;
constexpr int64_t kItemBytes = int64_t{1} << 20;  // what one thread reads at a time

}  // namespace

int64_t read_buffer_bytes() {
  constexpr int64_t kLeast = int64_t{512} << 20;
  constexpr int64_t kMost = int64_t{2} << 30;
  return std::clamp(4 * largest_cache_bytes(), kLeast, kMost);
}

MachineRead::MachineRead(ParallelFor& parallel, int64_t buffer_bytes)
    : parallel_(parallel),
      buffer_bytes_((buffer_bytes + kItemBytes - 1) / kItemBytes * kItemBytes) {}

void MachineRead::measure() {
  const ReadLoop& loop = read_loops().back();
  const std::vector<float> data(static_cast<size_t>(buffer_bytes_) / sizeof(float), 1.0F);
  const int64_t n_items = buffer_bytes_ / kItemBytes;
  constexpr size_t kItem = kItemBytes / sizeof(float);
  static_assert(kItem % kReadStep == 0);
  std::vector<float> sums(static_cast<size_t>(n_items));  // what is read is used
  const auto read = [&](int64_t item, int32_t /*worker*/) {
    const auto i = static_cast<size_t>(item);
    sums[i] = loop.sum(data.data() + i * kItem, kItem);
  };
  for (int pass = -1; pass < kPasses; ++pass) {  // -1 wakes the threads
    const auto start = std::chrono::steady_clock::now();
    parallel_.run(n_items, read);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (pass < 0) continue;
    samples_.push_back(1e-9 * static_cast<double>(buffer_bytes_) / seconds.count());
  }
}

double MachineRead::gb_per_s() const { return samples_.empty() ? 0 : median(samples_); }

void MachineFigures::take(const MachineRead& read) {
  read_gb_per_s = read.gb_per_s();
  read_samples = read.samples();
  read_buffer_bytes = read.buffer_bytes();
}

std::string MachineFigures::read_line() const {
  const auto [low, high] = std::minmax_element(read_samples.begin(), read_samples.end());
  return format_text(
      "Streaming read of this machine in this run, %d threads over %.0f MiB: %.2f GB/s (median; "
      "%.2f - %.2f).\n",
      n_threads, static_cast<double>(read_buffer_bytes) / (1 << 20), read_gb_per_s,
      read_samples.empty() ? 0 : *low, read_samples.empty() ? 0 : *high);
}

nlohmann::ordered_json MachineFigures::json() const {
  return {{"cpu", cpu},
          {"threads", n_threads},
          {"read_gb_per_s", read_gb_per_s},
          {"read_gb_per_s_samples", read_samples},
          {"read_buffer_bytes", read_buffer_bytes},
          {"resident_bytes_peak", peak_resident_bytes}};
}

}  // namespace kvasir::eval
