// Decoding and encoding of compressed rows on one core, per format and side, in values a second.
//
//   format_bench --benchmark_filter=decode
//
// `decode` walks over rows that lie in memory, `cached` decodes one block again and again; both
// write to the same few rows, as attention does.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "format/row_codec.h"

namespace kvasir::bench {
namespace {

constexpr size_t kWorkingSet = size_t{64} << 20;  // bytes of codes; beyond any cache

struct Blocks {
  Blocks(const RowCodec& codec, int32_t head_dim, size_t working_set)
      : n_rows(kMaxBlockRows / codec.block_rows() * codec.block_rows()),
        code_bytes(codec.row_bytes(head_dim) * static_cast<size_t>(n_rows)),
        rows(static_cast<size_t>(n_rows * head_dim)),
        shared(codec.shared_bytes(head_dim) * static_cast<size_t>(n_rows / codec.block_rows()) + 1),
        n(std::max<size_t>(1, working_set / code_bytes)) {
    std::mt19937 rng(1);
    std::normal_distribution<float> normal;
    for (float& x : rows) x = normal(rng);
    codes.resize(code_bytes * n);
    encode(codec, head_dim);
    for (size_t i = 1; i < n; ++i) {
      std::copy_n(codes.begin(), code_bytes,
                  codes.begin() + static_cast<ptrdiff_t>(i * code_bytes));
    }
  }

  /// All rows into the first codes, block by block.
  void encode(const RowCodec& codec, int32_t head_dim) {
    const int32_t block = codec.block_rows();
    for (int32_t r = 0; r < n_rows; r += block) {
      codec.encode(head_dim, rows.data() + r * head_dim, head_dim,
                   codes.data() + static_cast<size_t>(r) * codec.row_bytes(head_dim),
                   shared.data() + static_cast<size_t>(r / block) * codec.shared_bytes(head_dim));
    }
  }

  int32_t n_rows;
  size_t code_bytes;
  std::vector<float> rows;
  std::vector<std::byte> codes, shared;
  size_t n;  ///< copies of the rows
};

void count(benchmark::State& bench, const Blocks& blocks) {
  const auto values = static_cast<double>(blocks.rows.size());
  bench.counters["Gvalues/s"] = benchmark::Counter(
      1e-9 * static_cast<double>(bench.iterations()) * values, benchmark::Counter::kIsRate);
}

void decode(benchmark::State& bench, const RowCodec* codec, int32_t head_dim, size_t working_set) {
  const Blocks blocks(*codec, head_dim, working_set);
  const int32_t run = std::max(32, codec->block_rows());
  std::vector<float> out(static_cast<size_t>(run * head_dim));
  size_t at = 0;
  for (auto _ : bench) {
    for (int32_t r = 0; r < blocks.n_rows; r += run) {
      const size_t first = static_cast<size_t>(r) * codec->row_bytes(head_dim);
      const auto block = static_cast<size_t>(r / codec->block_rows());
      codec->decode(head_dim, blocks.codes.data() + at * blocks.code_bytes + first, run,
                    blocks.shared.data() + block * codec->shared_bytes(head_dim), out.data());
      benchmark::DoNotOptimize(out.data());
      benchmark::ClobberMemory();
    }
    at = (at + 1) % blocks.n;
  }
  count(bench, blocks);
}

void encode(benchmark::State& bench, const RowCodec* codec, int32_t head_dim) {
  Blocks blocks(*codec, head_dim, 0);
  for (auto _ : bench) {
    blocks.encode(*codec, head_dim);
    benchmark::ClobberMemory();
  }
  count(bench, blocks);
}

void register_side(const std::string& name, const RowCodec* codec) {
  for (const int32_t head_dim : {64, 100, 128}) {
    const std::string of = name + "/dim:" + std::to_string(head_dim);
    benchmark::RegisterBenchmark(("decode/" + of).c_str(), decode, codec, head_dim, kWorkingSet);
    benchmark::RegisterBenchmark(("cached/" + of).c_str(), decode, codec, head_dim, size_t{0});
    benchmark::RegisterBenchmark(("encode/" + of).c_str(), encode, codec, head_dim);
  }
}

}  // namespace
}  // namespace kvasir::bench

int main(int argc, char** argv) {
  for (const kvasir::RowFormat& format : kvasir::row_formats()) {
    const std::string name(format.name);
    if (format.k != nullptr) kvasir::bench::register_side(name + "/K", format.k);
    if (format.v != nullptr) kvasir::bench::register_side(name + "/V", format.v);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
