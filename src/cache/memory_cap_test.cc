// The arithmetic of a cap: pages, tiers, growth, shares.
#include "cache/memory_cap.h"

#include <gtest/gtest.h>

#include <numeric>

#include "kernels/kernels.h"

namespace kvasir {
namespace {

constexpr int64_t kPage = 8192;
constexpr int64_t kSlotBytes = 12;

LayerShape f16_shape() {
  LayerShape shape;
  shape.object_bytes = 100;
  shape.f16_page = kPage;
  shape.sinks = 4;
  shape.protect = 12;
  shape.recent = 128;
  shape.slot_bytes = kSlotBytes;
  return shape;
}

LayerShape coded_shape() {
  LayerShape shape = f16_shape();
  shape.cold_page = 4096;
  shape.cold_page_slots = 128;
  shape.unit = 32;
  return shape;
}

LayerLoad holding(int32_t n) {
  LayerLoad load;
  load.exists = true;
  load.n_slots = load.n_f16 = n;
  load.f16_pages = load.f16_table = (n + kPageSlots - 1) / kPageSlots;
  load.slot_capacity = n;
  return load;
}

int64_t bound(const LayerShape& shape, const LayerLoad& load, int32_t n_new) {
  int64_t passing = 0;
  return bound_bytes(shape, load, n_new, passing);
}

TEST(MemoryCap, PagesCountWhole) {
  const LayerShape shape = f16_shape();
  const auto expected = [&](int64_t pages, int64_t entries, int64_t slots) {
    return shape.object_bytes + pages * kPage + entries * 8 + slots * kSlotBytes;
  };
  EXPECT_EQ(held_bytes(shape, holding(64)), expected(1, 1, 64));
  EXPECT_EQ(held_bytes(shape, holding(65)), expected(2, 2, 65));
  EXPECT_EQ(bound(shape, holding(64), 0), expected(1, 1, 64));
  EXPECT_EQ(bound(shape, holding(63), 1), expected(1, 1, grown(63, 64)));
  EXPECT_EQ(bound(shape, holding(64), 1), expected(2, 4, grown(64, 65)));
  EXPECT_EQ(bound(shape, LayerLoad{}, 0), 0);
  EXPECT_EQ(bound(shape, LayerLoad{}, 1), expected(1, 2, grown(0, 1)));
}

TEST(MemoryCap, ASparePageServesTheNextRows) {
  LayerLoad load = holding(64);
  load.f16_pages = 2;
  const int64_t table = 3 * 8;  // one entry grows to four
  EXPECT_EQ(bound(f16_shape(), load, 64) - held_bytes(f16_shape(), load),
            table + (grown(64, 128) - 64) * kSlotBytes);
}

TEST(MemoryCap, DemotedRowsTakeTheirTierBeforeTheOtherGivesUp) {
  const LayerShape shape = coded_shape();
  LayerLoad load = holding(4 + 128 + 31);  // nothing to demote yet
  int64_t passing = 0;
  const int64_t before = bound_bytes(shape, load, 0, passing);
  EXPECT_EQ(before, held_bytes(shape, load));
  EXPECT_EQ(passing, 0);
  const int64_t after = bound_bytes(shape, load, 1, passing);
  // 164 rows: three pages; 32 leave, which still takes three (one spare), and one page of codes.
  EXPECT_EQ(after - before, 4096 + 16 + 3 * 8 - 3 * 8 + (grown(163, 164) - 163) * kSlotBytes);
  EXPECT_EQ(passing, 0);
  load = holding(64 * 10);  // ten pages, eight of them to be demoted
  bound_bytes(shape, load, 0, passing);
  EXPECT_EQ(passing, 4 * 4096);
}

TEST(MemoryCap, CuttingCountsWhatStays) {
  const LayerLoad cut = cut_to(f16_shape(), holding(1000), 100);
  EXPECT_EQ(cut.n_slots, 100);
  EXPECT_EQ(cut.f16_pages, 2);
  const LayerLoad demoted = cut_to(coded_shape(), holding(1000), 1000);
  EXPECT_EQ(demoted.n_cold, (1000 - 4 - 128) / 32 * 32);
  EXPECT_EQ(demoted.n_f16 + demoted.n_cold, 1000);
  const LayerLoad both = cut_to(coded_shape(), holding(1000), 500);
  EXPECT_GE(both.n_f16 + both.n_cold, 500);  // a bound: which tier loses is not known
  EXPECT_EQ(filled_to(f16_shape(), holding(10), 700).n_f16, 700);
}

TEST(MemoryCap, RowsByCellAreNotCut) {
  LayerShape shape = f16_shape();
  shape.n_cells = 640;
  LayerLoad load = holding(0);
  load.f16_pages = 8;
  EXPECT_EQ(cut_to(shape, load, 0).f16_pages, 8);
  const int64_t one = bound(shape, load, 1);
  const int64_t two = bound(shape, load, 2);
  EXPECT_EQ(two - one, kPage);
  EXPECT_EQ(bound(shape, load, 500), two);  // there are no more than ten pages
}

LayerShape residual_shape() {
  LayerShape shape = coded_shape();
  shape.unit = 128;
  shape.references.page = 4096;
  shape.references.page_rows = 20;
  shape.references.unit = 128;
  shape.references.per_unit = 13;
  shape.references.stride = 10;
  shape.references.neighbours = 4;
  shape.references.index_bytes = 8;
  shape.references.group_bytes = 16;
  shape.references.group_rows = 64;
  shape.references.sinks = 4;
  shape.references.page_differences = 128;
  return shape;
}

TEST(MemoryCap, AUnitBringsItsReferences) {
  const LayerShape shape = residual_shape();
  const LayerLoad load = holding(4 + 128 + 127);
  EXPECT_EQ(bound(shape, load, 0), held_bytes(shape, load) + 16);  // scratch of one group
  // 128 rows: 115 differences of one page, 13 references and those of 4 sinks: one page.
  const LayerLoad full = filled_to(shape, load, 4 + 128 + 128);
  EXPECT_EQ(full.n_cold, 128);
  EXPECT_EQ(full.references.n_differences, 115);
  EXPECT_EQ(full.references.n_live, 17);
  EXPECT_EQ(full.cold_pages, 1);
  EXPECT_EQ(full.references.pages, 1);
  const int64_t grows = bound(shape, load, 1) - bound(shape, load, 0);
  EXPECT_GE(grows, 2 * 4096 - kPage);
  EXPECT_GE(bound(shape, load, 1), held_bytes(shape, full));
}

TEST(MemoryCap, ReferencesOutliveTheirTokens) {
  const LayerShape shape = residual_shape();
  LayerLoad load = filled_to(shape, LayerLoad{}, 128 * 100 + 132);
  ASSERT_EQ(load.n_cold, 128 * 100);
  ASSERT_EQ(load.references.n_live, 4 + 13 * 100);
  // Of 300 demoted rows at most each has 4 fathers that left: none of the 1304 need be free.
  const LayerLoad some = cut_to(shape, load, 16 + 330);
  EXPECT_EQ(some.references.n_live, 1304);
  // Of 100 it is 4 of each, themselves where they are references, and the sinks.
  const LayerLoad few = cut_to(shape, load, 16 + 100);
  EXPECT_EQ(few.n_cold, 100);
  EXPECT_EQ(few.references.n_live, 4 + 100 + 400);
  EXPECT_EQ(few.references.pages, (504 + 19) / 20);
  EXPECT_EQ(cut_to(shape, load, 16).references.n_live, 0);
  // Free ones are used before others are made, and are there until they are given back.
  load.references.n_live = 700;
  EXPECT_EQ(bound(shape, load, 0) - bound(shape, some, 0) > 0, true);
  const int64_t pages = load.references.pages;
  EXPECT_EQ(reference_bound(shape.references, load.references, load.n_cold, 256).pages,
            pages * 4096);
  EXPECT_EQ(reference_bound(shape.references, load.references, load.n_cold, 128 * 50).pages,
            (700 + 650 + 19) / 20 * 4096);
}

TEST(MemoryCap, TablesOfReferencesGrowAsTheirVectorsDo) {
  const ReferenceShape shape = residual_shape().references;
  ReferenceLoad load;
  load.n_own = load.own_capacity = load.index_capacity = 1000;
  load.n_live = load.n_indices = 1000;
  load.pages = load.table = 50;
  load.group_capacity = 150;
  // Nothing is taken: scratch of a group more than 9600 rows need, when some of them leave.
  EXPECT_EQ(reference_bound(shape, load, 9600, 0).tables,
            50 * 8 + 1000 * 8 + 1000 * 4 + 150 * 16 + 151 * 16);
  EXPECT_EQ(reference_bound(shape, load, 9600, 128).tables,
            102 * 8 + grown(1000, 1013) * (8 + 4) + grown(150, 153) * 16 + 153 * 16);
}

TEST(MemoryCap, FathersPast65534TakeAByteMore) {
  ReferenceShape shape = residual_shape().references;
  ReferenceLoad load;
  load.n_live = load.n_indices = load.index_capacity = 0xFFFF - 14;
  load.n_differences = 600'000;
  const auto tables = [&](int64_t n) { return reference_bound(shape, load, 660'000, n).tables; };
  const int64_t narrow = tables(128);
  load.n_live = load.n_indices = load.index_capacity = 0xFFFF - 13;
  EXPECT_GT(tables(128) - narrow, int64_t{600'000} * 4);
}

TEST(MemoryCap, BoundsOfKeysAndWhatRowsShareOnce) {
  LayerShape shape = coded_shape();
  const LayerLoad load = holding(1024);
  const int64_t plain = bound(shape, load, 0);
  shape.chunk_bytes = 32'000;
  shape.chunk_slots = 1024;
  EXPECT_EQ(bound(shape, load, 0) - plain, 32'000 + 2 * 24);
  EXPECT_EQ(bound(shape, load, 1) - bound(coded_shape(), load, 1), 2 * 32'000 + 4 * 24);
  shape = coded_shape();
  shape.cold_fixed = 100'000;
  EXPECT_EQ(bound(shape, load, 0) - plain, 100'000);  // 32 rows at least are demoted
  EXPECT_EQ(bound(shape, holding(100), 0), bound(coded_shape(), holding(100), 0));
}

class Shares : public ::testing::Test {
 protected:
  Shares() {
    cache_.n_streams = 8;
    cache_.shapes.assign(2, f16_shape());
    cache_.workspace = [](int64_t) { return int64_t{1000}; };
  }
  void hold(const std::vector<int32_t>& tokens) {
    tokens_ = tokens;
    cache_.loads.clear();
    for (size_t layer = 0; layer < cache_.shapes.size(); ++layer) {
      for (const int32_t n : tokens) cache_.loads.push_back(holding(n));
    }
  }
  std::optional<int32_t> level(int64_t cap, const std::vector<int32_t>& n_new) {
    return CapPlan({&cache_, 1}, n_new).level(cap);
  }
  std::vector<int32_t> kept(int32_t level, const std::vector<int32_t>& n_new) {
    std::vector<int32_t> kept;
    const CapPlan plan({&cache_, 1}, n_new);
    for (int32_t s = 0; s < 8; ++s) {
      kept.push_back(plan.kept(cache_.shapes[0], cache_.load(0, s), s, level));
    }
    return kept;
  }

  CacheLoad cache_;
  std::vector<int32_t> tokens_;
  const std::vector<int32_t> none_ = std::vector<int32_t>(8, 0);
};

TEST_F(Shares, WhatFitsIsNotCut) {
  hold({100, 200, 300, 400, 500, 600, 700, 800});
  const auto found = level(int64_t{1} << 30, none_);
  ASSERT_TRUE(found);
  EXPECT_EQ(kept(*found, none_), tokens_);
}

TEST_F(Shares, SmallStreamsStayWholeAndLargeOnesAreEqual) {
  hold({10, 20, 64, 128, 2000, 3000, 4000, 5000});
  // Room for 40 pages in each of two layers: 1 + 1 + 1 + 2 are taken, 35 are left for four streams.
  const int64_t rest = 8 * 2 * 100 + 1000 + 16 * 5000 + 2 * 2800 * (kSlotBytes + 1);
  const auto found = level(2 * 40 * kPage + rest, none_);
  ASSERT_TRUE(found);
  EXPECT_EQ(kept(*found, none_),
            (std::vector<int32_t>{10, 20, 64, 128, *found, *found, *found, *found}));
  EXPECT_GE(*found, 8 * 64);
  EXPECT_LE(*found, 9 * 64 + 8);
}

TEST_F(Shares, TheLevelIsTheHighestThatFits) {
  hold({900, 20, 1, 700, 2000, 64, 500, 5000});
  const std::vector<int32_t> n_new = {1, 0, 30, 0, 64, 0, 1, 0};
  const CapPlan plan({&cache_, 1}, n_new);
  for (int64_t cap = 1 << 19; cap < 4 << 20; cap += 99'991) {
    const auto found = plan.level(cap);
    ASSERT_TRUE(found) << cap;
    EXPECT_LE(plan.bound_at(*found), cap);
    if (*found < 5000) {
      EXPECT_GT(plan.bound_at(*found + 1), cap) << cap;
    }
  }
}

TEST_F(Shares, WhatMayNeverLeaveIsNotCut) {
  hold({1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000});
  EXPECT_FALSE(level(8 * 2 * kPage, none_));
  const auto least = level(8 * 2 * (kPage + 16 * kSlotBytes + 108) + 1000 + 256, none_);
  ASSERT_TRUE(least);
  for (const int32_t n : kept(*least, none_)) EXPECT_GE(n, 16);
}

TEST_F(Shares, ArrivingTokensTakeFromTheirOwnShare) {
  hold({1000, 1000, 0, 0, 0, 0, 0, 0});
  std::vector<int32_t> n_new(8, 0);
  n_new[0] = 200;
  EXPECT_EQ(kept(500, n_new)[0], 300);
  EXPECT_EQ(kept(500, n_new)[1], 500);
  EXPECT_EQ(kept(100, n_new)[0], 16);  // sinks and protected tokens stay
}

TEST_F(Shares, AStreamMayGrowIntoWhatOthersLeave) {
  hold({100, 10, 0, 0, 0, 0, 0, 0});
  std::vector<int32_t> n_new(8, 0);
  n_new[0] = 1;
  const CapPlan plan({&cache_, 1}, n_new);
  const int64_t cap = 4 << 20;
  const int32_t alone = plan.allowance(cap, 100'000, 0);
  EXPECT_LE(plan.bound_filled(alone), cap);
  EXPECT_GT(plan.bound_filled(alone + 1), cap);
  for (const int32_t hint : {1, 77, alone - 1, alone, alone + 1, 100'000}) {
    EXPECT_EQ(plan.allowance(cap, 100'000, hint), alone) << hint;
  }
  n_new[1] = 1;  // two that grow
  EXPECT_NEAR(CapPlan({&cache_, 1}, n_new).allowance(cap, 100'000, 0), alone / 2, alone / 20);
}

}  // namespace
}  // namespace kvasir
