// Restored rows that are kept: which are found and which leave, and that attention over them is, to
// the bit, what it is without them.
#include "cache/restored_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "cache/count_allocations.h"
#include "cache/test_streams.h"

namespace kvasir {
namespace {

using testing::Sequence;
using testing::Shape;
using testing::Streams;
using testing::ThreadFor;

constexpr LayerGeometry kGeometry{2, 8, 4};

size_t z(int64_t n) { return static_cast<size_t>(n); }

// Fills in what a plan has room for: the row's number, as bits.
void fill_in(RestoredRows& kept, const std::vector<int32_t>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const int32_t entry = kept.entry(static_cast<int32_t>(i));
    for (int32_t h = 0; entry >= 0 && h < kGeometry.n_kv_heads; ++h) {
      if (kept.holds(entry, h)) continue;
      std::fill_n(kept.k(entry, h), kGeometry.head_dim_k, static_cast<uint16_t>(rows[i]));
      std::fill_n(kept.v(entry, h), kGeometry.head_dim_v, static_cast<uint16_t>(rows[i] + 1));
      kept.fill(entry, h);
    }
  }
}

// Those of `rows` that are kept; each has its own bits.
std::vector<int32_t> found(const RestoredRows& kept, const std::vector<int32_t>& rows) {
  std::vector<int32_t> found;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int32_t entry = kept.entry(static_cast<int32_t>(i));
    if (!kept.holds(entry, 0)) continue;
    for (int32_t h = 0; h < kGeometry.n_kv_heads; ++h) {
      EXPECT_EQ(kept.k(entry, h)[kGeometry.head_dim_k - 1], rows[i]);
      EXPECT_EQ(kept.v(entry, h)[kGeometry.head_dim_v - 1], rows[i] + 1);
    }
    found.push_back(rows[i]);
  }
  return found;
}

using Rows = std::vector<int32_t>;

Rows step(RestoredRows& kept, const Rows& rows) {
  kept.plan(rows, 1 << 20);
  Rows of_before = found(kept, rows);
  fill_in(kept, rows);
  EXPECT_EQ(found(kept, rows).size() <= rows.size(), true);
  return of_before;
}

Rows range(int32_t first, int32_t last) {
  Rows rows(z(last - first));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

TEST(RestoredRows, FindsWhatWasReadAndGivesUpWhatWasNotForLongest) {
  PageArena arena;
  RestoredRows kept(kGeometry, 128, arena);  // a page has 64 rows
  EXPECT_EQ(step(kept, range(0, 64)), Rows());
  EXPECT_EQ(step(kept, range(0, 64)), range(0, 64));
  EXPECT_EQ(step(kept, range(100, 228)), Rows());  // takes the room of all
  EXPECT_EQ(step(kept, range(0, 32)), Rows());     // of 32 of the older ones
  EXPECT_EQ(step(kept, range(16, 48)), range(16, 32));
  const Rows rest = step(kept, range(100, 228));
  EXPECT_EQ(rest.size(), 128U - 48U);
  EXPECT_EQ(kept.n_read(), 64 + 64 + 128 + 32 + 32 + 128);
  EXPECT_EQ(kept.n_found(), 64 + 16 + 80);
}

TEST(RestoredRows, KeepsWhatItHasRoomForAndFindsThatPart) {
  PageArena arena;
  RestoredRows kept(kGeometry, 64, arena);
  step(kept, range(0, 256));
  EXPECT_EQ(step(kept, range(0, 256)).size(), 64U);
  EXPECT_EQ(step(kept, range(0, 256)).size(), 64U);  // reading all again drives none out
}

// Against a list of what was read when, over many steps.
TEST(RestoredRows, IsTheLeastRecentlyReadThatLeaves) {
  PageArena arena;
  RestoredRows kept(kGeometry, 128, arena);
  std::mt19937 rng(4);
  std::vector<int32_t> last_read(400, -1000);  // step that read a row; held while >= cutoff
  std::vector<bool> held(400, false);
  for (int32_t s = 0; s < 200; ++s) {
    Rows rows;
    for (int32_t r = 0; r < 400; ++r) {
      if (rng() % 8 == 0) rows.push_back(r);
    }
    Rows expected;
    for (const int32_t r : rows) {
      if (held[z(r)]) expected.push_back(r);
    }
    const Rows seen = step(kept, rows);
    ASSERT_EQ(seen, expected) << "step " << s;
    for (const int32_t r : rows) {
      last_read[z(r)] = s;
      held[z(r)] = true;
    }
    // The oldest leave; of equal ones those that come first.
    while (std::count(held.begin(), held.end(), true) > 128) {
      int32_t oldest = -1;
      for (int32_t r = 0; r < 400; ++r) {
        if (held[z(r)] && (oldest < 0 || last_read[z(r)] < last_read[z(oldest)])) oldest = r;
      }
      held[z(oldest)] = false;
    }
  }
}

TEST(RestoredRows, FollowsRowsThatMove) {
  PageArena arena;
  RestoredRows kept(kGeometry, 64, arena);
  step(kept, range(10, 20));
  kept.keep(12, std::vector<int32_t>{114, 115, 118}, 100);  // 12, 13, 16, 17 and 19 leave
  kept.plan(Rows{10, 11, 12, 13, 14, 15}, 1 << 20);
  Rows of;
  for (int32_t i = 0; i < 6; ++i) {
    of.push_back(kept.holds(kept.entry(i), 0) ? kept.k(kept.entry(i), 0)[0] : -1);
  }
  EXPECT_EQ(of, (Rows{10, 11, 14, 15, 18, -1}));
  kept.keep(0, {}, 0);
  EXPECT_EQ(kept.bytes(), sizeof(RestoredRows));
  EXPECT_EQ(step(kept, range(0, 10)), Rows());
}

TEST(RestoredRows, TakesAtMostTheBytesThatAreSaid) {
  for (const int32_t n : {1, 64, 1000}) {
    PageArena arena;
    RestoredRows kept(kGeometry, n, arena);
    for (int32_t i = 1; i < 2 * n; i += 17) step(kept, range(0, i));
    EXPECT_LE(kept.bytes(), RestoredRows::most_bytes(kGeometry, n, 2 * n)) << n;
    const size_t bytes = kept.bytes();
    const int64_t allocations = n_allocations;
    for (int32_t i = 0; i < 20; ++i) kept.plan(std::span<const int32_t>(), 100);
    EXPECT_EQ(n_allocations, allocations);
    EXPECT_EQ(kept.bytes(), bytes);
  }
}

// --- In a cache ---

CacheOptions options_of(const char* select, const char* format, int32_t keep, int32_t restored) {
  CacheOptions options;
  options.select = select;
  options.format = format;
  options.residual.stride = 7;
  options.recent = 40;
  options.select_params.keep = Keep{keep, 0};
  options.select_params.full_layers = {0};
  options.restored = restored;
  return options;
}

// Two caches that are told the same: one keeps restored rows, one does not.
class Pair {
 public:
  Pair(const CacheOptions& options, const std::vector<int32_t>& lengths, ParallelFor& parallel)
      : kept_(kShape, options, lengths, kLayers, parallel),
        plain_(kShape, without(options), lengths, kLayers, parallel),
        n_streams_(static_cast<int32_t>(lengths.size())) {
    RopeSpec rope;
    rope.neox = true;
    for (int32_t i = 0; i < 32; ++i) rope.frequencies.push_back(std::pow(10000.0, -i / 32.0));
    each([&](Streams& run) {
      for (int32_t l = 0; l < kLayers; ++l) run.cache().set_rope(l, rope);
    });
  }

  template <typename Act>
  void each(Act act) {
    act(kept_);
    act(plain_);
  }
  Streams& kept() { return kept_; }
  int64_t n_found() { return kept_.cache().rows_found(); }

  void decode(const char* when) {
    each([&](Streams& run) { run.decode(); });
    ASSERT_EQ(kept_.outs(), plain_.outs()) << when;
    each([&](Streams& run) {
      for (int32_t s = 0; s < n_streams_; ++s) run.end(s, true);
    });
  }

  // The last n tokens of a stream come anew, as other rows.
  void replace(int32_t stream, int32_t n, uint32_t seed) {
    each([&](Streams& run) {
      run.rewind(stream, n);
      for (int32_t l = 0; l < kLayers; ++l) {
        Sequence& rows = run.rows(l, stream);
        const Sequence other = Sequence::random(rows.geometry, 1024, seed + uint32_t(l));
        const ptrdiff_t from = ptrdiff_t{run.n_seen(stream)} * rows.geometry.width_k();
        std::copy(other.k.begin() + from, other.k.end(), rows.k.begin() + from);
        std::copy(other.v.begin() + from, other.v.end(), rows.v.begin() + from);
      }
      run.read(stream, n);
      run.end(stream, false);
    });
  }

 private:
  static constexpr Shape kShape{"gqa", 6, 2, 64};
  static constexpr int32_t kLayers = 3;
  static CacheOptions without(CacheOptions options) {
    options.restored = 0;
    return options;
  }
  Streams kept_, plain_;
  int32_t n_streams_;
};

TEST(RestoredRows, ChangeNoBitOfWhatIsRead) {
  ThreadFor threads(3);
  for (const char* format : {"residual", "latent", "k5v4,last=1:residual"}) {
    for (const char* select : {"omnikv", "quest", "sketch"}) {
      for (const int32_t restored : {kUsualRestored, 64, 4096}) {
        if (restored != 4096 && std::string(select) != "omnikv") continue;
        const std::string name =
            std::string(format) + " " + select + " " + std::to_string(restored);
        Pair pair(options_of(select, format, 150, restored), {500, 420}, threads);
        for (int32_t step = 0; step < 25; ++step) pair.decode(name.c_str());
        EXPECT_GT(pair.n_found(), 25 * 40) << name;
      }
    }
  }
}

TEST(RestoredRows, ChangeNoBitWhereTokensLeave) {
  ThreadFor threads(2);
  for (const char* policy : {"random", "window"}) {
    CacheOptions options = options_of("omnikv", "residual", 150, 4096);
    options.policy = policy;
    options.params.budget = 380;
    Pair pair(options, {500}, threads);
    for (int32_t step = 0; step < 300; ++step) pair.decode(policy);
    EXPECT_GT(pair.n_found(), 300 * 60) << policy;
  }
}

TEST(RestoredRows, ChangeNoBitWhereTextsAreCutCopiedOrBeginAnew) {
  SerialFor serial;
  Pair pair(options_of("omnikv", "residual", 150, 4096), {450, 400}, serial);
  const auto some = [&](const char* when) {
    for (int32_t step = 0; step < 12; ++step) pair.decode(when);
  };
  some("first");
  pair.replace(0, 300, 77);
  some("cut");
  pair.each([](Streams& run) { run.copy(0, 1); });
  some("copied");
  pair.replace(1, 200, 99);
  some("copied and cut");
  pair.replace(0, pair.kept().n_seen(0), 111);  // from position 0 on
  some("begun anew");
  pair.each([](Streams& run) {
    run.cache().clear_stream(1);
    run.rewind(1, run.n_seen(1));
    run.read(1, 400);
    run.end(1, false);
  });
  some("cleared");
  EXPECT_GT(pair.n_found(), 72 * 100);
}

// A copy of a layer does not keep what it had restored before.
TEST(RestoredRows, ACopyKeepsNothing) {
  SerialFor serial;
  Pair pair(options_of("omnikv", "residual", 150, 4096), {450, 400}, serial);
  for (int32_t step = 0; step < 3; ++step) pair.decode("before");
  pair.each([](Streams& run) {
    for (int32_t l = 0; l < 3; ++l) {
      ASSERT_TRUE(run.cache().find(l, 1)->copy_from(*run.cache().find(l, 0)));
      run.rows(l, 1) = run.rows(l, 0);
    }
    run.rewind(1, run.n_seen(1) - run.n_seen(0));
  });
  for (int32_t step = 0; step < 3; ++step) pair.decode("behind");
}

TEST(RestoredRows, AreCountedAndAllocateNothingInSteadyState) {
  SerialFor serial;
  CacheOptions options = options_of("omnikv", "residual", 150, 4096);
  options.policy = "window";
  options.params.budget = 400;
  Pair pair(options, {500}, serial);
  // What a test and a demotion allocate is the same on both sides.
  for (int32_t step = 0; step < 400; ++step) {
    std::vector<int64_t> counts, bytes;
    pair.each([&](Streams& run) {
      const int64_t before = n_allocations;
      run.decode();
      run.end(0, true);
      counts.push_back(n_allocations - before);
      bytes.push_back(run.cache().bytes().total());
    });
    EXPECT_GT(bytes[0], bytes[1]);
    if (step > 200) {
      EXPECT_EQ(counts[0], counts[1]) << step;
    }
  }
  LayerCache& rows = *pair.kept().cache().find(1, 0);
  EXPECT_GT(rows.restored()->bytes(), 64U * 2 * 128 * sizeof(uint16_t));
  EXPECT_GT(rows.metadata_bytes(), rows.restored()->bytes());
  EXPECT_LE(rows.restored()->bytes(), RestoredRows::most_bytes(rows.rows().geometry(), 400, 150));
}

}  // namespace
}  // namespace kvasir
