// What the kernels' tests share: pages with poisoned and guarded memory, and the list of tables.
//
// Knows the page layout of kernels.h and nothing of how a table works. Not thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "kernels/half.h"
#include "kernels/kernels.h"

namespace kvasir::test {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr uint16_t kHalfNan = 0x7E01;
inline constexpr float kCanary = -12345.75f;
inline constexpr double kUnit = 0x1p-24;  ///< rounding unit of binary32

/// Tests of one table; instantiate with all_tables() and table_name.
using TableTest = ::testing::TestWithParam<const KvKernels*>;

inline auto all_tables() { return ::testing::ValuesIn(supported_kernels()); }

inline std::string table_name(const ::testing::TestParamInfo<const KvKernels*>& info) {
  return info.param->name;
}

/// f16 memory on a 64-byte boundary that ends where the page ends, so that ASan sees overruns.
class HalfBuffer {
 public:
  explicit HalfBuffer(size_t n)
      : data_(static_cast<uint16_t*>(::operator new(n * sizeof(uint16_t), kAlignment))), n_(n) {
    std::fill_n(data_.get(), n, kHalfNan);
  }
  uint16_t* data() { return data_.get(); }
  const uint16_t* data() const { return data_.get(); }
  size_t size() const { return n_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(uint16_t* p) const { ::operator delete(p, kAlignment); }
  };
  std::unique_ptr<uint16_t, Free> data_;
  size_t n_;
};

/// A page of one KV head; every element NaN until it is set.
struct Page {
  Page(int32_t dim_k, int32_t dim_v, int32_t slots)
      : head_dim_k(dim_k),
        head_dim_v(dim_v),
        n_slots(slots),
        k(static_cast<size_t>(dim_k * kPageSlots)),
        v(static_cast<size_t>(dim_v * kPageSlots)) {}

  uint16_t& k_at(int32_t slot, int32_t d) {
    return k
        .data()[slot / kLaneSlots * head_dim_k * kLaneSlots + d * kLaneSlots + slot % kLaneSlots];
  }
  uint16_t& v_at(int32_t slot, int32_t d) { return v.data()[slot * head_dim_v + d]; }

  int32_t head_dim_k, head_dim_v, n_slots;
  HalfBuffer k, v;
};

/// A page whose valid slots hold normal random values.
inline Page random_page(int32_t dim_k, int32_t dim_v, int32_t n_slots, std::mt19937& rng) {
  Page page(dim_k, dim_v, n_slots);
  std::normal_distribution<float> normal;
  for (int32_t slot = 0; slot < n_slots; ++slot) {
    for (int32_t d = 0; d < dim_k; ++d) page.k_at(slot, d) = float_to_half(normal(rng));
    for (int32_t d = 0; d < dim_v; ++d) page.v_at(slot, d) = float_to_half(normal(rng));
  }
  return page;
}

/// Rows of f32 at pointers that are no multiple of any vector, one allocation per row.
class Rows {
 public:
  Rows(int32_t n_rows, int32_t n, float value)
      : storage_(static_cast<size_t>(n_rows),
                 std::vector<float>(static_cast<size_t>(n) + 1, value)) {
    for (auto& row : storage_) pointers_.push_back(row.data() + 1);
  }
  float* const* pointers() { return pointers_.data(); }
  const float* const* pointers() const { return pointers_.data(); }
  float* operator[](int32_t row) { return pointers_[static_cast<size_t>(row)]; }

 private:
  std::vector<std::vector<float>> storage_;
  std::vector<float*> pointers_;
};

/// Softmax state with room and canaries behind each accumulator.
class State {
 public:
  State(int32_t n_rows, int32_t head_dim_v)
      : n_rows_(n_rows),
        head_dim_v_(head_dim_v),
        stride_(head_dim_v + 3),
        m(static_cast<size_t>(n_rows), -kInfinity),
        s(static_cast<size_t>(n_rows), 0.0f),
        acc(static_cast<size_t>(n_rows * stride_), kCanary) {
    for (int32_t r = 0; r < n_rows; ++r) std::fill_n(row(r), head_dim_v, 0.0f);
  }
  SoftmaxState view() { return {m.data(), s.data(), acc.data(), stride_}; }
  float* row(int32_t r) { return acc.data() + r * stride_; }
  const float* row(int32_t r) const { return acc.data() + r * stride_; }
  bool canaries_alive() const {
    for (int32_t r = 0; r < n_rows_; ++r) {
      for (int32_t d = head_dim_v_; d < stride_; ++d) {
        if (row(r)[d] != kCanary) return false;
      }
    }
    return true;
  }

 private:
  int32_t n_rows_, head_dim_v_, stride_;

 public:
  std::vector<float> m, s, acc;
};

/// What a call of attention writes: the state, new or with something in it, and scores with
/// canaries behind them.
struct Outputs {
  Outputs(int32_t n_rows, int32_t head_dim_v, int32_t n_slots, bool old_state)
      : state(n_rows, head_dim_v), scores(n_rows, n_slots + 2, kCanary) {
    if (!old_state) return;
    for (int32_t r = 0; r < n_rows; ++r) {
      state.m[static_cast<size_t>(r)] = r % 3 == 0 ? 6.0f : -1.0f;
      state.s[static_cast<size_t>(r)] = 2.5f;
      for (int32_t d = 0; d < head_dim_v; ++d) state.row(r)[d] = 0.1f * static_cast<float>(d % 7);
    }
  }
  State state;
  Rows scores;
};

}  // namespace kvasir::test
