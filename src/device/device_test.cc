// The ggml seam without a model: names, rotation parameters, buffers that switch their type, bytes
// of rows that travel through set_tensor, get_tensor and copies.
#include "device/device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "device/graph_walk.h"
#include "device/kv_buffer.h"
#include "ggml-alloc.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace kvasir::device {
namespace {

TEST(CacheNames, AreExact) {
  ASSERT_TRUE(parse_cache_name("cache_k_l0"));
  EXPECT_TRUE(parse_cache_name("cache_k_l0")->is_k);
  EXPECT_EQ(parse_cache_name("cache_v_l117")->layer, 117);
  EXPECT_FALSE(parse_cache_name("cache_v_l117")->is_k);
  for (const char* name : {"cache_k_l", "cache_k_l1 (view)", "cache_idx_k_l1", "cache_r_l0",
                           "cache_k_l-1", "cache_k_l99999999999", ""}) {
    EXPECT_FALSE(parse_cache_name(name)) << name;
  }
}

// A context with K and V of one layer and streams of 512 cells, as llama.cpp makes them.
class CacheTensors : public ::testing::Test {
 public:
  static constexpr int64_t kWidth = 48;
  static constexpr int64_t kCells = 512;
  static constexpr int64_t kStreams = 2;

  void make(bool with_v, const CacheOptions& options = {}) {
    ASSERT_TRUE(set_options(options));
    ctx_.reset(ggml_init({ggml_tensor_overhead() * 16, nullptr, true}));
    k_ = ggml_new_tensor_3d(ctx_.get(), GGML_TYPE_F16, kWidth, kCells, kStreams);
    ggml_set_name(k_, "cache_k_l3");
    if (with_v) {
      v_ = ggml_new_tensor_3d(ctx_.get(), GGML_TYPE_F16, kWidth, kCells, kStreams);
      ggml_set_name(v_, "cache_v_l3");
    }
    buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(ctx_.get(), plain_buffer_type()));
    ASSERT_NE(buffer_, nullptr);
    ggml_backend_buffer_clear(buffer_.get(), 0);
    if (with_v) {
      ASSERT_TRUE(KvBuffer::of(k_)->set_geometry(3, {3, 16, 16}));
    }
  }
  void TearDown() override { ASSERT_TRUE(set_options({})); }

  static std::vector<uint16_t> pattern(size_t n, uint16_t seed) {
    std::vector<uint16_t> values(n);
    for (size_t i = 0; i < n; ++i) values[i] = static_cast<uint16_t>(seed + i * 7);
    return values;
  }
  std::vector<uint16_t> read(const ggml_tensor* t, int64_t first_row, int64_t n_rows) const {
    std::vector<uint16_t> values(static_cast<size_t>(n_rows * kWidth));
    ggml_backend_tensor_get(t, values.data(), static_cast<size_t>(first_row) * t->nb[1],
                            values.size() * sizeof(uint16_t));
    return values;
  }

  ggml_context_ptr ctx_;
  ggml_tensor* k_ = nullptr;
  ggml_tensor* v_ = nullptr;
  ggml_backend_buffer_ptr buffer_;
};

TEST_F(CacheTensors, WithVBecomeAKvBuffer) {
  make(true);
  EXPECT_EQ(ggml_backend_buffer_get_type(buffer_.get()), kv_buffer_type());
  EXPECT_FALSE(ggml_backend_buffer_is_host(buffer_.get()));
  EXPECT_TRUE(KvBuffer::is_managed(k_));
  EXPECT_TRUE(KvBuffer::is_managed(ggml_view_2d(ctx_.get(), v_, kWidth, 5, v_->nb[1], v_->nb[2])));
}

TEST_F(CacheTensors, WithKOnlyStayPlain) {
  make(false);
  EXPECT_EQ(ggml_backend_buffer_get_type(buffer_.get()), plain_buffer_type());
  EXPECT_TRUE(ggml_backend_buffer_is_host(buffer_.get()));
  EXPECT_FALSE(KvBuffer::is_managed(k_));
}

TEST_F(CacheTensors, BytesTravelInAnyCut) {
  make(true);
  const std::vector<uint16_t> rows = pattern(kWidth * 200, 11);
  ggml_backend_tensor_set(k_, rows.data(), 100 * k_->nb[1], rows.size() * 2);
  ggml_backend_tensor_set(v_, rows.data(), 400 * v_->nb[1], 100 * v_->nb[1]);
  EXPECT_EQ(read(k_, 100, 200), rows);
  EXPECT_EQ(read(v_, 400, 100), std::vector<uint16_t>(rows.begin(), rows.begin() + kWidth * 100));
  EXPECT_EQ(read(k_, 99, 1), std::vector<uint16_t>(kWidth, 0)) << "never written";

  const std::vector<uint16_t> part = pattern(30, 9000);  // starts and ends inside rows
  ggml_backend_tensor_set(k_, part.data(), 150 * k_->nb[1] + 20, part.size() * 2);
  std::vector<uint16_t> expected = rows;
  std::copy(part.begin(), part.end(), expected.begin() + 50 * kWidth + 10);
  EXPECT_EQ(read(k_, 100, 200), expected);

  ggml_backend_buffer_clear(buffer_.get(), 0);
  EXPECT_EQ(read(k_, 150, 1), std::vector<uint16_t>(kWidth, 0));
}

TEST_F(CacheTensors, StreamsAreCopiedWhole) {
  make(true);
  const std::vector<uint16_t> k_rows = pattern(kWidth * 70, 1);
  const std::vector<uint16_t> v_rows = pattern(kWidth * 70, 40000);
  ggml_backend_tensor_set(k_, k_rows.data(), 0, k_rows.size() * 2);
  ggml_backend_tensor_set(v_, v_rows.data(), 0, v_rows.size() * 2);
  const auto stream = [&](ggml_tensor* t, int64_t s) {
    ggml_tensor* view =
        ggml_view_2d(ctx_.get(), t, kWidth, kCells, t->nb[1], static_cast<size_t>(s) * t->nb[2]);
    EXPECT_EQ(ggml_backend_view_init(view), GGML_STATUS_SUCCESS);
    return view;
  };
  ggml_backend_tensor_copy(stream(k_, 0), stream(k_, 1));
  ggml_backend_tensor_copy(stream(v_, 0), stream(v_, 1));
  EXPECT_EQ(read(k_, kCells, 70), k_rows);
  EXPECT_EQ(read(v_, kCells, 70), v_rows);
}

TEST_F(CacheTensors, UnderACapNothingIsRestoredOrCopied) {
  CacheOptions options;
  options.policy = "window";
  options.budget_mb = 64;
  make(true, options);
  const std::vector<uint16_t> rows = pattern(kWidth * 4, 3);
  ggml_backend_tensor_set(k_, rows.data(), 0, rows.size() * 2);
  for (const uint16_t value : read(k_, 0, 4)) EXPECT_GT(value & 0x7FFF, 0x7C00) << "NaN: absent";
}

// A saved stream comes back with its gaps; pieces of rows do not count as one.
TEST_F(CacheTensors, EvictingCachesTakeWholeRestoredRows) {
  CacheOptions options;
  options.policy = "window";
  options.params.budget = 64;
  make(true, options);
  std::vector<uint16_t> rows = pattern(kWidth * 4, 3);
  std::fill_n(rows.begin() + kWidth, kWidth, uint16_t{0x7E00});  // had been evicted
  ggml_backend_tensor_set(k_, rows.data(), 0, rows.size() * 2);
  EXPECT_EQ(read(k_, 0, 4), rows);
  for (const uint16_t value : read(k_, 4, 1)) EXPECT_GT(value & 0x7FFF, 0x7C00) << "NaN: absent";
  ggml_backend_tensor_set(k_, rows.data(), 10, 20);
  for (const uint16_t value : read(k_, 0, 4)) EXPECT_GT(value & 0x7FFF, 0x7C00) << "forgotten";
}

TEST(Rope, FrequenciesFollowTheNode) {
  ggml_context_ptr ctx(ggml_init({ggml_tensor_overhead() * 16, nullptr, true}));
  ggml_tensor* x = ggml_new_tensor_3d(ctx.get(), GGML_TYPE_F32, 16, 1, 1);
  ggml_tensor* pos = ggml_new_tensor_1d(ctx.get(), GGML_TYPE_I32, 1);
  ggml_tensor* rope = ggml_rope_ext(ctx.get(), x, pos, nullptr, 16, GGML_ROPE_TYPE_NEOX, 4096,
                                    10000.0F, 0.25F, 0, 1, 32, 1);
  Result<RopeSpec> spec = rope_spec(rope);
  ASSERT_TRUE(spec);
  EXPECT_TRUE(spec.value().neox);
  ASSERT_EQ(spec.value().frequencies.size(), 8U);
  EXPECT_DOUBLE_EQ(spec.value().frequencies[0], 0.25);
  EXPECT_NEAR(spec.value().frequencies[4], 0.25 * 0.01, 1e-12);
}

// Whatever the node asks for (YaRN, factors, offsets), a turn by the spec must land where ggml's
// own rotation lands.
TEST(Rope, TurnAgreesWithGgml) {
  for (const int mode : {GGML_ROPE_TYPE_NORMAL, GGML_ROPE_TYPE_NEOX}) {
    for (const float ext_factor : {0.0F, 1.0F}) {
      ggml_context_ptr ctx(ggml_init({1 << 20, nullptr, false}));
      constexpr int kDim = 32, kRotated = 24;
      ggml_tensor* x = ggml_new_tensor_3d(ctx.get(), GGML_TYPE_F32, kDim, 1, 2);
      ggml_tensor* pos = ggml_new_tensor_1d(ctx.get(), GGML_TYPE_I32, 2);
      ggml_tensor* factors = ggml_new_tensor_1d(ctx.get(), GGML_TYPE_F32, kRotated / 2);
      auto* values = static_cast<float*>(x->data);
      for (int i = 0; i < kDim; ++i)
        values[i] = values[i + kDim] = 0.1F * static_cast<float>(i - 9);
      static_cast<int32_t*>(pos->data)[0] = 3000;
      static_cast<int32_t*>(pos->data)[1] = 1234;
      for (int i = 0; i < kRotated / 2; ++i) {
        static_cast<float*>(factors->data)[i] = 1 + 0.2F * static_cast<float>(i);
      }
      ggml_tensor* rope = ggml_rope_ext(ctx.get(), x, pos, factors, kRotated, mode, 512, 10000.0F,
                                        0.5F, ext_factor, 1, 32, 1);
      ggml_cgraph* graph = ggml_new_graph(ctx.get());
      ggml_build_forward_expand(graph, rope);
      ASSERT_EQ(ggml_graph_compute_with_ctx(ctx.get(), graph, 1), GGML_STATUS_SUCCESS);
      Result<RopeSpec> spec = rope_spec(rope);
      ASSERT_TRUE(spec);
      Rotator rotator(spec.value());
      const auto* rotated = static_cast<const float*>(rope->data);
      std::vector<float> out(kDim);
      rotator.apply(rotator.prepare(1234 - 3000), rotated, kDim, out.data());
      for (int i = 0; i < kDim; ++i) {
        EXPECT_NEAR(out[static_cast<size_t>(i)], rotated[kDim + i], 1e-3)
            << mode << " " << ext_factor;
      }
    }
  }
}

}  // namespace
}  // namespace kvasir::device
