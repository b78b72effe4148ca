// Kernels on one core, per table: decode in GB/s of K and V, prefill in GFLOP/s, logit_sums; and
// the machine's bounds beside them (bench "peak/...").
//
//   attend_bench --benchmark_filter=decode
//
// Pages of many KV heads are visited in turn, so that decode reads from memory, as it does when a
// model's layers follow each other.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "kernels/half.h"
#include "kernels/kernels.h"
#include "kernels/read_loop.h"
#include "kernels/row_tiles.h"
#include "machine_peak.h"

namespace kvasir::bench {
namespace {

constexpr int32_t kSlots = 8192;
constexpr int32_t kPages = kSlots / kPageSlots;
constexpr size_t kWorkingSet = size_t{192} << 20;  // bytes; beyond any cache

// Filled, so that every page of memory is its own.
class Halfs {
 public:
  explicit Halfs(size_t n)
      : data_(static_cast<uint16_t*>(::operator new(n * sizeof(uint16_t), kAlignment))) {
    std::mt19937 rng(1);
    std::normal_distribution<float> normal;
    std::vector<uint16_t> values(4096);
    for (uint16_t& value : values) value = float_to_half(normal(rng));
    for (size_t i = 0; i < n; ++i) data_.get()[i] = values[(i + i / 4096) % values.size()];
  }
  const uint16_t* at(size_t i) const { return data_.get() + i; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(uint16_t* p) const { ::operator delete(p, kAlignment); }
  };
  std::unique_ptr<uint16_t, Free> data_;
};

struct Queries {
  Queries(int32_t n_rows, int32_t head_dim)
      : q(static_cast<size_t>(n_rows * head_dim)),
        m(static_cast<size_t>(n_rows)),
        s(static_cast<size_t>(n_rows)),
        acc(static_cast<size_t>(n_rows * head_dim)),
        head_dim_(head_dim) {
    std::mt19937 rng(2);
    std::normal_distribution<float> normal;
    for (float& x : q) x = normal(rng);
    for (int32_t r = 0; r < n_rows; ++r) pointers.push_back(q.data() + r * head_dim);
  }
  SoftmaxState reset() {
    std::fill(m.begin(), m.end(), -INFINITY);
    std::fill(s.begin(), s.end(), 0.0f);
    std::fill(acc.begin(), acc.end(), 0.0f);
    return {m.data(), s.data(), acc.data(), head_dim_};
  }
  std::vector<float> q, m, s, acc;
  std::vector<const float*> pointers;

 private:
  int32_t head_dim_;
};

struct Shape {
  int32_t n_rows, head_dim;
  bool masked = false;  ///< every row has a mask that hides nothing
};

PageArgs whole_page(const Queries& queries, Shape shape) {
  PageArgs args{};
  args.head_dim_k = args.head_dim_v = shape.head_dim;
  args.n_slots = kPageSlots;
  args.n_rows = shape.n_rows;
  args.q = queries.pointers.data();
  args.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  return args;
}

// Rates of iterations that read head_bytes for n_rows queries.
void count_rates(benchmark::State& bench, Shape shape, size_t head_bytes) {
  const auto [n_rows, head_dim, masked] = shape;
  const auto iterations = static_cast<double>(bench.iterations());
  bench.counters["GB/s"] = benchmark::Counter(iterations * static_cast<double>(head_bytes) * 1e-9,
                                              benchmark::Counter::kIsRate);
  bench.counters["GFLOP/s"] =
      benchmark::Counter(iterations * 4e-9 * static_cast<double>(n_rows) * kSlots * head_dim,
                         benchmark::Counter::kIsRate);
}

// One iteration: n_rows queries of one KV head over kSlots tokens.
void attend(benchmark::State& bench, const KvKernels* table, Shape shape, size_t working_set) {
  const auto [n_rows, head_dim, masked] = shape;
  const auto page = static_cast<size_t>(head_dim * kPageSlots);
  const size_t head_bytes = 2 * page * kPages * sizeof(uint16_t);
  const size_t n_heads = std::max<size_t>(1, working_set / head_bytes);
  const Halfs k(n_heads * kPages * page), v(n_heads * kPages * page);
  Queries queries(n_rows, head_dim);
  PageArgs args = whole_page(queries, shape);
  const std::vector<uint16_t> mask(kPageSlots, 0);
  const std::vector<const uint16_t*> masks(static_cast<size_t>(n_rows), mask.data());
  args.mask = masked ? masks.data() : nullptr;
  size_t head = 0;
  for (auto _ : bench) {
    const SoftmaxState state = queries.reset();
    for (size_t i = head * kPages; i < (head + 1) * kPages; ++i) {
      args.k = k.at(i * page);
      args.v = v.at(i * page);
      args.next_k = k.at((i + 1) % (n_heads * kPages) * page);
      table->attend_page(args, state);
    }
    benchmark::DoNotOptimize(queries.acc.data());
    benchmark::ClobberMemory();
    head = (head + 1) % n_heads;
  }
  count_rates(bench, shape, head_bytes);
}

// How K and V of a format are packed.
struct CodedFormat {
  const char* name;
  Packing k, v;
  bool in_tiles = false;
};

constexpr Packing kInt8{Levels::kSigned, 8, Scaling::kGroup};
constexpr Packing kInt4{Levels::kUnsigned, 4, Scaling::kGroupZero};
constexpr Packing kK5{Levels::kUnsigned, 5, Scaling::kGroupZeroMean, 64, true};
constexpr Packing kV4{Levels::kUnsigned, 4, Scaling::kGroupZero, 64, true};
constexpr CodedFormat kCodedFormats[] = {{"int8", kInt8, kInt8, true},
                                         {"int8-rows", kInt8, kInt8},
                                         {"int4", kInt4, kInt4},
                                         {"k5v4", kK5, kV4}};

// One iteration as above, from codes.
void attend_codes(benchmark::State& bench, const KvKernels* table, const CodedFormat* format,
                  Shape shape, size_t working_set) {
  const auto [n_rows, head_dim, masked] = shape;
  const size_t k_page = format->k.row_bytes(head_dim) * kPageSlots;
  const size_t v_page = format->v.row_bytes(head_dim) * kPageSlots;
  const size_t head_bytes = (k_page + v_page) * kPages;
  const size_t n_heads = std::max<size_t>(1, working_set / head_bytes);
  // 2^-7 as binary16 everywhere, which is scales and codes of 0 and 32.
  const std::vector<uint16_t> codes((n_heads * head_bytes + k_page + v_page + 64) / 2, 0x2000);
  void* first = const_cast<uint16_t*>(codes.data());
  size_t room = codes.size() * 2;
  const auto* bytes = static_cast<const std::byte*>(std::align(64, room - 64, first, room));
  const RowTiles k_tiles{format->k, head_dim, RowLayout::kKeyTile};
  const RowTiles v_tiles{format->v, head_dim, RowLayout::kValueTile};
  Queries queries(n_rows, head_dim);
  std::vector<std::byte> memory(coded_query_bytes(n_rows, head_dim) + 64);
  CodedQueries coded;
  coded.q = queries.pointers.data();
  coded.n_rows = n_rows;
  void* at = memory.data();
  size_t space = memory.size();
  coded.memory = static_cast<std::byte*>(std::align(64, space - 64, at, space));
  PageArgs args = whole_page(queries, shape);
  CodedPage page;
  page.k = {format->k, head_dim, nullptr, 1, {{{kPageSlots, bytes}}}};
  page.v = {format->v, head_dim, nullptr, 1, {{{kPageSlots, bytes}}}};
  size_t head = 0;
  for (auto _ : bench) {
    const SoftmaxState state = queries.reset();
    coded.prepared = false;
    for (size_t i = head * kPages; i < (head + 1) * kPages; ++i) {
      page.k.rows = bytes + i * (k_page + v_page);
      page.v.rows = page.k.rows + k_page;
      page.next_k = page.v.rows + v_page;
      if (format->in_tiles) {
        v_tiles.point(page.v.rows, 0, page.v);
        k_tiles.point(page.k.rows, 0, page.k);
      }
      page.next_v = page.next_k + k_page;
      table->attend_coded(args, page, coded, 0, state);
    }
    benchmark::DoNotOptimize(queries.acc.data());
    benchmark::ClobberMemory();
    head = (head + 1) % n_heads;
  }
  count_rates(bench, shape, head_bytes);
}

void logit_sums(benchmark::State& bench, const KvKernels* table, int32_t n) {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(static_cast<size_t>(n));
  for (float& x : logits) x = normal(rng);
  for (auto _ : bench) {
    benchmark::ClobberMemory();
    benchmark::DoNotOptimize(table->logit_sums(logits.data(), n));
  }
}

void store(benchmark::State& bench, const KvKernels* table, int32_t n_tokens) {
  constexpr int32_t kDim = 64;
  std::vector<float> rows(static_cast<size_t>(n_tokens * kDim), 1.5f);
  Halfs k(kDim * kPageSlots), v(kDim * kPageSlots);
  for (auto _ : bench) {
    table->store_k(const_cast<uint16_t*>(k.at(0)), kDim, 0, n_tokens, rows.data(), kDim);
    table->store_v(const_cast<uint16_t*>(v.at(0)), kDim, 0, n_tokens, rows.data(), kDim);
    benchmark::ClobberMemory();
  }
  bench.SetItemsProcessed(bench.iterations() * n_tokens);
}

void peak_fma(benchmark::State& bench, const MachinePeak* peak) {
  constexpr int64_t kRounds = 100000;
  for (auto _ : bench) benchmark::DoNotOptimize(peak->fma_rounds(kRounds));
  bench.counters["GFLOP/s"] = benchmark::Counter(
      1e-9 * static_cast<double>(bench.iterations() * kRounds * peak->flops_per_round),
      benchmark::Counter::kIsRate);
}

void peak_read(benchmark::State& bench, const ReadLoop* loop) {
  const std::vector<float> data(kWorkingSet / sizeof(float), 1.0f);
  for (auto _ : bench) benchmark::DoNotOptimize(loop->sum(data.data(), data.size()));
  bench.counters["GB/s"] = benchmark::Counter(
      1e-9 * static_cast<double>(bench.iterations()) * static_cast<double>(kWorkingSet),
      benchmark::Counter::kIsRate);
}

std::string shape_text(const char* what, const Shape& shape, const char* name) {
  return std::string(what) + "/rows:" + std::to_string(shape.n_rows) +
         "/dim:" + std::to_string(shape.head_dim) + (shape.masked ? "/masked/" : "/") + name;
}

void register_attend(const KvKernels* table) {
  constexpr Shape kDecode[] = {{1, 64},  {1, 128}, {3, 64},  {4, 128},
                               {4, 256}, {8, 64},  {8, 128}, {3, 64, true}};
  constexpr Shape kPrefill[] = {{12, 64}, {48, 64}, {48, 128}, {48, 256}, {48, 64, true}};
  for (const Shape& shape : kDecode) {
    benchmark::RegisterBenchmark(shape_text("decode", shape, table->name).c_str(), attend, table,
                                 shape, kWorkingSet);
  }
  for (const Shape& shape : kDecode) {  // one head again and again: what the arithmetic allows
    benchmark::RegisterBenchmark(shape_text("cached", shape, table->name).c_str(), attend, table,
                                 shape, size_t{0});
  }
  for (const Shape& shape : kPrefill) {
    benchmark::RegisterBenchmark(shape_text("prefill", shape, table->name).c_str(), attend, table,
                                 shape, kWorkingSet);
  }
}

void register_coded(const KvKernels* table) {
  if (table->attend_coded == nullptr) return;
  constexpr Shape kShapes[] = {{1, 64}, {3, 64}, {4, 128}, {4, 256}, {8, 64}, {63, 64}, {64, 128}};
  for (const CodedFormat& format : kCodedFormats) {
    for (const Shape& shape : kShapes) {
      const std::string of = std::string("/") + format.name;
      benchmark::RegisterBenchmark(shape_text(("coded" + of).c_str(), shape, table->name).c_str(),
                                   attend_codes, table, &format, shape, kWorkingSet);
      benchmark::RegisterBenchmark(
          shape_text(("coded_cached" + of).c_str(), shape, table->name).c_str(), attend_codes,
          table, &format, shape, size_t{0});
    }
  }
}

void register_all() {
  for (const MachinePeak& peak : machine_peaks()) {
    const std::string name = peak.name;
    benchmark::RegisterBenchmark(("peak/fma/" + name).c_str(), peak_fma, &peak);
  }
  for (const ReadLoop& loop : read_loops()) {
    const std::string name = loop.name;
    benchmark::RegisterBenchmark(("peak/read/" + name).c_str(), peak_read, &loop);
  }
  for (const KvKernels* table : supported_kernels()) {
    register_attend(table);
    register_coded(table);
    const std::string name = table->name;
    for (const int32_t n : {49152, 262144}) {
      benchmark::RegisterBenchmark(("logit_sums/n:" + std::to_string(n) + "/" + name).c_str(),
                                   logit_sums, table, n)
          ->Unit(benchmark::kMicrosecond);
    }
    for (const int32_t n : {1, 64}) {
      benchmark::RegisterBenchmark(("store/tokens:" + std::to_string(n) + "/" + name).c_str(),
                                   store, table, n);
    }
  }
}

}  // namespace
}  // namespace kvasir::bench

int main(int argc, char** argv) {
  kvasir::bench::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
