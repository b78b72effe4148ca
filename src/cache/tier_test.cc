// Rows in their place: pages, compaction, masks, turns.
#include <gtest/gtest.h>

#include <numeric>

#include "cache/coded_tier.h"
#include "cache/f16_tier.h"
#include "cache/layer_cache.h"
#include "cache/mask_view.h"
#include "cache/rope.h"
#include "cache/test_rows.h"

namespace kvasir {
namespace {

using testing::Sequence;

constexpr LayerGeometry kGeometry{3, 20, 12};

std::vector<uint16_t> expected_k(const Sequence& s, int32_t token) {
  std::vector<uint16_t> row(static_cast<size_t>(s.geometry.width_k()));
  std::transform(s.k_row(token), s.k_row(token) + row.size(), row.begin(), float_to_half);
  return row;
}

std::vector<uint16_t> expected_v(const Sequence& s, int32_t token) {
  std::vector<uint16_t> row(static_cast<size_t>(s.geometry.width_v()));
  std::transform(s.v_row(token), s.v_row(token) + row.size(), row.begin(), float_to_half);
  return row;
}

void expect_rows(const F16Tier& tier, const Sequence& s, const std::vector<int32_t>& tokens) {
  std::vector<uint16_t> k(static_cast<size_t>(s.geometry.width_k()));
  std::vector<uint16_t> v(static_cast<size_t>(s.geometry.width_v()));
  for (size_t slot = 0; slot < tokens.size(); ++slot) {
    tier.read_k(static_cast<int32_t>(slot), k.data());
    tier.read_v(static_cast<int32_t>(slot), v.data());
    ASSERT_EQ(k, expected_k(s, tokens[slot])) << "slot " << slot;
    ASSERT_EQ(v, expected_v(s, tokens[slot])) << "slot " << slot;
  }
}

void store(F16Tier& tier, const Sequence& s, int32_t first, int32_t n) {
  ASSERT_TRUE(tier.reserve(first, n));
  tier.store_k(first, {s.k_row(first), s.geometry.width_k(), n});
  tier.store_v(first, {s.v_row(first), s.geometry.width_v(), n});
}

TEST(F16Tier, KeepsSurvivorsBitForBit) {
  const Sequence s = Sequence::random(kGeometry, 300, 1);
  PageArena arena;
  F16Tier tier(kGeometry, best_kernels(), arena);
  store(tier, s, 0, 300);
  std::vector<int32_t> tokens(300);
  std::iota(tokens.begin(), tokens.end(), 0);
  expect_rows(tier, s, tokens);

  std::mt19937 generator(7);
  std::vector<int32_t> survivors;
  for (int32_t slot = 33; slot < 300; ++slot) {
    if (generator() % 3 == 0) survivors.push_back(slot);
  }
  tier.keep(33, survivors);
  tokens.resize(33);
  tokens.insert(tokens.end(), survivors.begin(), survivors.end());
  expect_rows(tier, s, tokens);
}

TEST(F16Tier, GivesPagesBackButOne) {
  const Sequence s = Sequence::random(kGeometry, 640, 2);
  const size_t page = PageArena::footprint(F16Page::bytes(kGeometry));
  PageArena arena;
  F16Tier tier(kGeometry, best_kernels(), arena);
  store(tier, s, 0, 640);
  EXPECT_EQ(tier.bytes() / page, 10U);
  std::vector<int32_t> none;
  tier.keep(64, none);
  EXPECT_EQ(tier.bytes() / page, 2U) << "one page of rows and one spare";
  tier.clear();
  EXPECT_EQ(tier.bytes(), 0U);
}

TEST(F16Tier, AbsentPagesCostNothing) {
  PageArena arena;
  F16Tier tier(kGeometry, best_kernels(), arena);
  ASSERT_TRUE(tier.reserve(1000, 1));
  EXPECT_FALSE(tier.has_page(0));
  EXPECT_TRUE(tier.has_page(1000 / kPageSlots));
  EXPECT_LT(tier.bytes(), 2 * PageArena::footprint(F16Page::bytes(kGeometry)));
  std::vector<uint16_t> row(static_cast<size_t>(kGeometry.width_k()), 1);
  tier.read_k(0, row.data());
  EXPECT_EQ(row, std::vector<uint16_t>(row.size(), 0));
}

class Arrivals : public ::testing::Test {
 public:
  void append(const std::vector<int32_t>& cells, const std::vector<int32_t>& positions) {
    std::vector<float> k, v;
    for (const int32_t p : positions) {
      k.insert(k.end(), s_.k_row(p), s_.k_row(p) + kGeometry.width_k());
      v.insert(v.end(), s_.v_row(p), s_.v_row(p) + kGeometry.width_v());
    }
    const auto n = static_cast<int32_t>(positions.size());
    ASSERT_TRUE(rows_.append_k({cells, positions}, {k.data(), kGeometry.width_k(), n}));
    ASSERT_TRUE(rows_.append_v({cells, positions}, {v.data(), kGeometry.width_v(), n}));
  }
  std::vector<int32_t> positions() const {
    return {rows_.positions().begin(), rows_.positions().end()};
  }

  Sequence s_ = Sequence::random(kGeometry, 200, 3);
  PageArena arena_;
  LayerCache rows_{Placement::kByArrival, kGeometry, nullptr, best_kernels(), arena_};
};

TEST_F(Arrivals, AscendByPositionAndFollowCells) {
  append({0, 1, 2}, {0, 1, 2});
  EXPECT_TRUE(rows_.is_identity());
  append({9, 4}, {3, 4});
  EXPECT_FALSE(rows_.is_identity());
  EXPECT_EQ(positions(), (std::vector<int32_t>{0, 1, 2, 3, 4}));
  expect_rows(rows_.rows(), s_, {0, 1, 2, 3, 4});
}

TEST_F(Arrivals, RewrittenPositionsReplaceTheTail) {
  append({0, 1, 2, 3}, {0, 1, 2, 3});
  append({2, 3, 4}, {2, 3, 4});  // the server removed positions 2 and 3, then wrote them again
  EXPECT_EQ(positions(), (std::vector<int32_t>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(rows_.is_identity());
  append({7}, {1});
  EXPECT_EQ(positions(), (std::vector<int32_t>{0, 1}));
}

TEST_F(Arrivals, RewrittenCellReplacesItsToken) {
  append({0, 1, 2, 3}, {0, 1, 2, 3});
  append({1}, {9});
  EXPECT_EQ(positions(), (std::vector<int32_t>{0, 2, 3, 9}));
  expect_rows(rows_.rows(), s_, {0, 2, 3, 9});
}

TEST_F(Arrivals, HiddenCellsAreDropped) {
  append({0, 1, 2, 3, 8}, {0, 1, 2, 3, 4});
  std::vector<uint16_t> mask(6, 0);
  mask[1] = kF16MinusInf;
  EXPECT_EQ(rows_.drop_hidden(mask.data(), 6), 2) << "cell 1 is hidden, cell 8 lies past the mask";
  EXPECT_EQ(positions(), (std::vector<int32_t>{0, 2, 3}));
  EXPECT_EQ(rows_.drop_hidden(mask.data(), 6), 0);
}

TEST(MaskView, ClassesPagesAndGathers) {
  constexpr int32_t kCells = 192;
  std::vector<uint16_t> values(size_t{kCells} * 2, kF16MinusInf);
  std::fill_n(values.begin(), 100, uint16_t{0});           // query 0 sees cells 0..99
  std::fill_n(values.begin() + kCells, 128, uint16_t{0});  // query 1 sees cells 0..127
  values[kCells + 70] = float_to_half(-3.0F);
  MaskView view;
  view.set_identity({values.data(), kCells, 2, kCells}, 1);
  EXPECT_EQ(view.visibility(0, 0), MaskView::kFully);
  EXPECT_EQ(view.visibility(0, 1), MaskView::kPartly);
  EXPECT_EQ(view.visibility(0, 2), MaskView::kHidden);
  EXPECT_EQ(view.visibility(1, 1), MaskView::kPartly) << "a finite bias is not plain visibility";
  EXPECT_EQ(view.page_mask(0, 0), nullptr);
  EXPECT_EQ(view.page_mask(1, 1), values.data() + kCells + 64);

  const std::vector<int32_t> cells{99, 100, 3, 191, 500};
  view.set_gathered({values.data(), kCells, 2, kCells}, cells, 1);
  ASSERT_EQ(view.n_slots(), 5);
  const uint16_t* row = view.page_mask(0, 0);
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(std::vector<uint16_t>(row, row + 5),
            (std::vector<uint16_t>{0, kF16MinusInf, 0, kF16MinusInf, kF16MinusInf}));
}

TEST(MaskView, GathersAnewForOtherCellsAndForAnotherStep) {
  std::vector<uint16_t> values(64, 0);
  const CellMask mask{values.data(), 64, 1, 64};
  const std::vector<int32_t> cells{3, 5};
  MaskView view;
  view.set_gathered(mask, cells, 1);
  EXPECT_EQ(view.visibility(0, 0), MaskView::kFully);
  values[5] = kF16MinusInf;
  view.set_gathered(mask, cells, 1);
  EXPECT_EQ(view.visibility(0, 0), MaskView::kFully) << "the next layer of a step shares the work";
  view.set_gathered(mask, cells, 2);
  EXPECT_EQ(view.visibility(0, 0), MaskView::kPartly);
  view.set_gathered(mask, std::vector<int32_t>{3, 4}, 2);
  EXPECT_EQ(view.visibility(0, 0), MaskView::kFully);
  view.set_gathered(mask, std::vector<int32_t>{5}, 2);
  EXPECT_EQ(view.visibility(0, 0), MaskView::kHidden);
  view.set_identity(mask, 2);
  EXPECT_EQ(view.visibility(0, 0), MaskView::kPartly) << "cells in their own order";
  EXPECT_EQ(view.n_slots(), 64);
}

TEST(Rotator, TurnEqualsRotationAtTheOtherPosition) {
  constexpr int32_t kDim = 24;
  for (const bool neox : {false, true}) {
    RopeSpec spec;
    spec.neox = neox;
    spec.offset = 4;
    for (int32_t i = 0; i < 8; ++i) spec.frequencies.push_back(std::pow(10000.0, -i / 8.0));
    std::mt19937 generator(5);
    std::normal_distribution<float> normal;
    std::vector<float> row(kDim);
    for (float& x : row) x = normal(generator);
    const auto rotated = [&](int32_t position) {
      std::vector<double> out(row.begin(), row.end());
      for (size_t i = 0; i < 8; ++i) {
        const size_t a = neox ? 4 + i : 4 + 2 * i;
        const size_t b = neox ? 4 + i + 8 : 4 + 2 * i + 1;
        const double angle = spec.frequencies[i] * position;
        out[a] = row[a] * std::cos(angle) - row[b] * std::sin(angle);
        out[b] = row[a] * std::sin(angle) + row[b] * std::cos(angle);
      }
      return out;
    };
    Rotator rotator(spec);
    for (const int32_t delta : {-1, 1, -700, -19999, 12345}) {
      const std::vector<double> at_20k = rotated(20000);
      const std::vector<float> from(at_20k.begin(), at_20k.end());
      std::vector<float> out(kDim);
      rotator.apply(rotator.prepare(delta), from.data(), kDim, out.data());
      const std::vector<double> expected = rotated(20000 + delta);
      for (size_t d = 0; d < kDim; ++d) EXPECT_NEAR(out[d], expected[d], 2e-6) << neox << delta;
    }
  }
}

// A row that leaves gives its place to one from behind; no other row moves, and each slot keeps
// what it was, in tiles (head_dim 64) as in rows.
TEST(CodedTier, RowsLieInAnyOrderAndOnlyTheLastMove) {
  for (const char* format : {"int8", "int4"}) {
    const LayerGeometry geometry{2, 64, 64};
    const Sequence s = Sequence::random(geometry, 320, 3);
    PageArena arena;
    F16Tier f16(geometry, best_kernels(), arena);
    store(f16, s, 0, 320);
    const RowFormat* rows = find_format(format);
    CodedTier tier(geometry, {rows->k, rows->v}, best_kernels(), arena, true);
    CodedTier in_order(geometry, {rows->k, rows->v}, best_kernels(), arena);
    SerialFor serial;
    EncodeScratch scratch;
    std::vector<int32_t> positions(320);
    std::iota(positions.begin(), positions.end(), 0);
    for (CodedTier* t : {&tier, &in_order}) {
      ASSERT_TRUE(t->append({f16, 0, 256, std::span(positions).first(256), {}}, serial, scratch));
    }
    std::mt19937 generator(5);
    std::vector<float> want(64), got(64);
    for (int step = 0; step < 60; ++step) {
      const std::vector<int32_t> before(tier.rows_of().begin(), tier.rows_of().end());
      const auto n = static_cast<uint32_t>(tier.n_rows());
      const auto hole = static_cast<int32_t>(generator() % n);
      std::vector<int32_t> survivors;
      for (int32_t slot = hole + 1; slot < tier.n_rows(); ++slot) {
        if (generator() % 64 != 0) survivors.push_back(slot + 4);  // slots of a layer with 4 sinks
      }
      tier.keep(hole, survivors, 4);
      in_order.keep(hole, survivors, 4);
      ASSERT_EQ(tier.n_rows(), in_order.n_rows());
      int32_t n_moved = 0;
      for (int32_t slot = 0; slot < tier.n_rows(); ++slot) {
        const int32_t row = tier.rows_of()[static_cast<size_t>(slot)];
        const int32_t was = slot < hole ? slot : survivors[static_cast<size_t>(slot - hole)] - 4;
        n_moved += row != before[static_cast<size_t>(was)] ? 1 : 0;
        for (const int32_t head : {0, 1}) {
          tier.read_k(head, row, 1, nullptr, got.data());
          in_order.read_k(head, slot, 1, nullptr, want.data());
          ASSERT_EQ(got, want) << format << ", step " << step << ", slot " << slot;
          tier.read_v(head, row, 1, got.data());
          in_order.read_v(head, slot, 1, want.data());
          ASSERT_EQ(got, want) << format << ", step " << step << ", slot " << slot;
        }
      }
      EXPECT_LE(n_moved, static_cast<int32_t>(before.size()) - tier.n_rows());
      if (step % 10 == 9) {  // rows that arrive lie behind
        for (CodedTier* t : {&tier, &in_order}) {
          ASSERT_TRUE(t->append({f16, 256, 32, std::span(positions).subspan(256, 32), {}}, serial,
                                scratch));
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvasir
