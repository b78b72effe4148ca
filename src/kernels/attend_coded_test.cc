// attend_coded: every table that has it against the reference, with the error that kernels.h
// allows.
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>

#include "kernels/coded_page.h"
#include "kernels/reference/reference.h"
#include "kernels/row_tiles.h"
#include "kernels/test_support.h"

namespace kvasir {
namespace {

using test::kCanary;
using test::kUnit;
using test::Outputs;
using test::Rows;

float uniform(std::mt19937& rng, float low, float high) {
  return std::uniform_real_distribution<float>(low, high)(rng);
}

/// K or V of a page: random codes at an odd address, in memory that ends where they end.
class Side {
 public:
  Side(const Packing& packing, int32_t head_dim, int32_t n_slots, int32_t n_runs, std::mt19937& rng)
      : packing_(packing), head_dim_(head_dim), n_slots_(n_slots) {
    const size_t row = packing.row_bytes(head_dim);
    rows_.resize(row * static_cast<size_t>(n_slots) + 1);
    for (std::byte& b : rows_) b = static_cast<std::byte>(rng() & 0xFF);
    for (int32_t slot = 0; slot < n_slots; ++slot) {
      put_halfs(rows_.data() + 1 + static_cast<size_t>(slot) * row,
                packing.scale_bytes(head_dim) / 2, packing.has_zero() ? 2 : 1, rng);
    }
    for (int32_t i = 0; i < n_runs; ++i) {
      auto& shared = shared_.emplace_back(static_cast<size_t>(head_dim) * 4 + 1);
      put_halfs(shared.data() + 1, static_cast<size_t>(head_dim) * 2, 0, rng);
    }
    values_.resize(static_cast<size_t>(n_slots) * static_cast<size_t>(head_dim));
    const CodedSide all = side();
    int32_t first = 0;
    for (int32_t i = 0; i < n_runs; ++i) {
      const SharedRun& run = all.runs[static_cast<size_t>(i)];
      reference::unpack_rows({packing, head_dim, run.end - first,
                              all.rows + static_cast<size_t>(first) * row, run.shared},
                             values_.data() + first * head_dim);
      first = run.end;
    }
  }

  CodedSide side() const {
    CodedSide out;
    out.packing = packing_;
    out.head_dim = head_dim_;
    out.rows = rows_.data() + 1;
    out.n_runs = static_cast<int32_t>(shared_.size());
    for (int32_t i = 0; i < out.n_runs; ++i) {
      out.runs[static_cast<size_t>(i)] = {i + 1 == out.n_runs ? n_slots_ : (i + 1) * 11,
                                          shared_[static_cast<size_t>(i)].data() + 1};
    }
    return out;
  }

  /// Largest magnitude of a scale, a zero or a mean, and of a code.
  static constexpr double kMostScale = 0.04;
  double most_code() const {
    return packing_.levels == Levels::kSigned ? 128 : (1 << packing_.bits) - 1;
  }
  double value(int32_t slot, int32_t d) const {
    const auto row = static_cast<size_t>(slot) * static_cast<size_t>(head_dim_);
    return static_cast<double>(values_[row + static_cast<size_t>(d)]);
  }

 private:
  // Every stride-th is a scale and not negative.
  static void put_halfs(std::byte* to, size_t n, size_t stride, std::mt19937& rng) {
    for (size_t i = 0; i < n; ++i) {
      const bool is_scale = stride > 0 && i % stride == 0;
      const uint16_t half = float_to_half(uniform(rng, is_scale ? 0.0f : -0.039f, 0.039f));
      std::memcpy(to + 2 * i, &half, sizeof(half));
    }
  }

  Packing packing_;
  int32_t head_dim_, n_slots_;
  std::vector<std::byte> rows_;
  std::vector<std::vector<std::byte>> shared_;
  std::vector<float> values_;
};

struct Case {
  Packing k, v;
  int32_t head_dim_k = 64, head_dim_v = 64, n_slots = kPageSlots, n_rows = 3;
  int32_t n_runs = 1;
  bool masked = false, scores = false, old_state = false, eight_bits = false;
  float soft_cap = 0;

  static void describe(std::ostream& out, const Packing& p, int32_t head_dim) {
    out << "levels " << static_cast<int>(p.levels) << ", bits " << p.bits << ", scaling "
        << static_cast<int>(p.scaling) << ", groups of " << p.group_channels << ", dim "
        << head_dim;
  }
  std::string text() const {
    std::ostringstream out;
    out << "K: ";
    describe(out, k, head_dim_k);
    out << "; V: ";
    describe(out, v, head_dim_v);
    out << "; slots " << n_slots << ", rows " << n_rows << ", runs " << n_runs << ", masked "
        << masked << ", scores " << scores << ", old state " << old_state << ", cap " << soft_cap
        << ", queries of " << (eight_bits ? 8 : 16) << " bits";
    return out.str();
  }
};

struct Inputs {
  Inputs(const Case& of, std::mt19937& rng)
      : c(of),
        k(c.k, c.head_dim_k, c.n_slots, c.n_runs, rng),
        v(c.v, c.head_dim_v, c.n_slots, c.n_runs, rng),
        q(c.n_rows + 2, c.head_dim_k, 0.0f) {
    for (int32_t r = 0; r < c.n_rows + 2; ++r) {
      for (int32_t d = 0; d < c.head_dim_k; ++d) q[r][d] = uniform(rng, -1, 1);
      auto& mask = masks.emplace_back(static_cast<size_t>(c.n_slots), uint16_t{0});
      for (uint16_t& m : mask) m = uniform(rng, 0, 1) < 0.4f ? kHalfMinusInfinity : uint16_t{0};
      mask_rows.push_back(mask.data());
    }
  }

  // Rows 2 .. of the queries: a row range that does not start at 0.
  PageArgs args(Rows* scores) const {
    PageArgs a{};
    a.head_dim_k = c.head_dim_k;
    a.head_dim_v = c.head_dim_v;
    a.n_slots = c.n_slots;
    a.n_rows = c.n_rows;
    a.q = q.pointers() + 2;
    a.scale = 1.5f / std::sqrt(static_cast<float>(c.head_dim_k));
    a.soft_cap = c.soft_cap;
    a.mask = c.masked ? mask_rows.data() : nullptr;
    a.scores = scores != nullptr ? scores->pointers() : nullptr;
    return a;
  }

  /// Queries as integers: half a step of each channel of the scaled query, with codes or, where
  /// slots have zeros, codes and zeros; then rounding of f32 sums (as attend_page_test.cc).
  double score_error(int32_t slot) const {
    double norm = 0, levels = 0;
    for (int32_t d = 0; d < c.head_dim_k; ++d) {
      norm += std::abs(k.value(slot, d)) + Side::kMostScale * (2 + k.most_code());
      levels += Side::kMostScale * (k.most_code() + 1);
    }
    const auto scale = static_cast<double>(args(nullptr).scale);
    const double half_step = c.eight_bits ? 0x1.03p-8 : 0x1.02p-16;
    return scale * (half_step * levels + kUnit * (c.head_dim_k + 8) * norm) +
           2e-7 * static_cast<double>(c.soft_cap);
  }

  Case c;
  Side k, v;
  Rows q;
  std::vector<std::vector<uint16_t>> masks;
  std::vector<const uint16_t*> mask_rows;
};

// Twice, as for two pages of one unit: the second call finds its queries ready.
Outputs run(const KvKernels& table, const Inputs& in, const CodedPage& page) {
  const size_t n = coded_query_bytes(in.c.n_rows + 2, in.c.head_dim_k);
  std::vector<std::byte> memory(n + 64);
  void* at = memory.data();
  size_t space = memory.size();
  CodedQueries queries;
  queries.q = in.q.pointers();
  queries.n_rows = in.c.n_rows + 2;
  queries.eight_bits = in.c.eight_bits;
  queries.memory = static_cast<std::byte*>(std::align(64, n, at, space));
  std::optional<Outputs> out;
  for (int i = 0; i < 2; ++i) {
    out.emplace(in.c.n_rows, in.c.head_dim_v, in.c.n_slots, in.c.old_state);
    table.attend_coded(in.args(in.c.scores ? &out->scores : nullptr), page, queries, 2,
                       out->state.view());
  }
  return std::move(*out);
}

Outputs run(const KvKernels& table, const Inputs& in) {
  return run(table, in, {in.k.side(), in.v.side()});
}

/// The rows of `side` in a tile from slot `first` on; all other bytes are 255, so scales NaN.
CodedSide in_tile(const CodedSide& side, int32_t n_slots, RowLayout layout, int32_t first,
                  std::vector<std::byte>& memory) {
  const RowTiles tiles{side.packing, side.head_dim, layout};
  memory.assign(tiles.bytes() + 64, std::byte{0xFF});
  void* at = memory.data();
  size_t space = memory.size();
  auto* tile = static_cast<std::byte*>(std::align(64, tiles.bytes(), at, space));
  const size_t row_bytes = side.packing.row_bytes(side.head_dim);
  for (int32_t slot = 0; slot < n_slots; ++slot) {
    tiles.put(side.rows + static_cast<size_t>(slot) * row_bytes, tile, first + slot);
  }
  CodedSide out = side;
  tiles.point(tile, first, out);
  return out;
}

void expect_near(double got, double want, double bound, const std::string& what) {
  if (got == want) return;
  EXPECT_LE(std::abs(got - want), bound) << what << ": " << got << " instead of " << want;
}

void expect_agreement(const KvKernels& table, const Case& c, std::mt19937& rng) {
  const Inputs in(c, rng);
  Outputs want = run(reference::table(), in);
  Outputs got = run(table, in);
  for (int32_t row = 0; row < c.n_rows; ++row) {
    const auto r = static_cast<size_t>(row);
    double delta = kUnit, most_v = 1;
    for (int32_t slot = 0; slot < c.n_slots; ++slot) {
      delta = std::max(delta, in.score_error(slot));
      for (int32_t d = 0; d < c.head_dim_v; ++d) {
        most_v = std::max(most_v, std::abs(in.v.value(slot, d)));
      }
      if (!c.scores) continue;
      expect_near(static_cast<double>(got.scores[row][slot]),
                  static_cast<double>(want.scores[row][slot]), in.score_error(slot),
                  c.text() + ": score of row " + std::to_string(row));
    }
    const auto s = static_cast<double>(want.state.s[r]);
    const double relative = 2 * delta + 2e-7 + 66 * kUnit;
    expect_near(static_cast<double>(got.state.s[r]), s, relative * s, c.text() + ": s");
    // p * scale as integers: half a step of the page's largest, for every slot.
    const double numbers = c.n_slots * 0x1.01p-17 * Side::kMostScale * (in.v.most_code() + 1);
    for (int32_t d = 0; d < c.head_dim_v; ++d) {
      expect_near(static_cast<double>(got.state.row(row)[d]),
                  static_cast<double>(want.state.row(row)[d]), relative * s * most_v + numbers,
                  c.text() + ": acc of channel " + std::to_string(d));
    }
    for (int32_t i = c.scores ? c.n_slots : 0; i < c.n_slots + 2; ++i) {
      ASSERT_EQ(got.scores[row][i], kCanary) << c.text() << ": written past the scores";
    }
  }
  ASSERT_TRUE(got.state.canaries_alive()) << c.text() << ": written past an accumulator";
}

std::vector<Packing> packings(bool of_keys) {
  std::vector<Packing> all;
  for (const bool large : {false, true}) {
    const auto add = [&](Levels levels, int32_t bits, Scaling scaling) {
      all.push_back({levels, bits, scaling, large ? 64 : 32, large});
    };
    add(Levels::kSigned, 8, Scaling::kGroup);
    add(Levels::kSigned, 8, Scaling::kChannel);
    for (const int32_t bits : {2, 3, 4, 5, 8}) {
      if (bits == 8 && !of_keys) continue;
      add(Levels::kUnsigned, bits, Scaling::kGroupZero);
      add(Levels::kUnsigned, bits, Scaling::kChannelZero);
      if (of_keys) add(Levels::kUnsigned, bits, Scaling::kGroupZeroMean);
    }
  }
  return all;
}

class AttendCoded : public test::TableTest {
 protected:
  void SetUp() override {
    if (GetParam()->attend_coded == nullptr)
      GTEST_SKIP() << "this table has no dot product of bytes";
  }
};

// Every packing of K and of V with every head_dim it is read for; the rest turns over.
TEST_P(AttendCoded, AgreesWithTheReference) {
  if (GetParam() == &reference::table()) GTEST_SKIP() << "the reference, against itself";
  std::mt19937 rng(5);
  int32_t turn = 0;
  const auto keys = packings(true), values = packings(false);
  for (size_t i = 0; i < std::max(keys.size(), values.size()); ++i) {
    for (const int32_t head_dim : {1, 7, 31, 32, 33, 64, 80, 96, 100, 128, 160, 256, 576}) {
      Case c{keys[i % keys.size()], values[i % values.size()], head_dim, head_dim};
      if (!attends_coded(c.k, head_dim, c.v, head_dim)) continue;
      for (const int32_t n_slots : {1, 15, 17, 48, 64}) {
        c.n_slots = n_slots;
        const int32_t rows[] = {1, 2, 3, 4, 7, 66};
        c.n_rows = rows[turn % 6];
        if (head_dim >= 256 && c.n_rows == 66) c.n_rows = 5;  // time
        c.n_runs = n_slots >= 48 ? 1 + turn % kMostRuns : 1;
        c.masked = turn % 3 == 1;
        c.scores = turn % 4 < 2;
        c.old_state = turn % 5 < 3;
        c.soft_cap = turn % 7 == 0 ? 5.0f : 0.0f;
        c.eight_bits = turn % 9 < 4;
        ++turn;
        expect_agreement(*GetParam(), c, rng);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(AttendCoded, HeadDimsOfKAndVMayDiffer) {
  std::mt19937 rng(6);
  const Packing int8{Levels::kSigned, 8, Scaling::kGroup};
  for (const auto& [k, v] : {std::pair{192, 128}, {128, 192}, {576, 512}, {5, 70}, {70, 5}}) {
    Case c{int8, int8, k, v};
    c.n_slots = 50;
    expect_agreement(*GetParam(), c, rng);
    if (HasFailure()) return;
  }
}

// Rows that lie in tiles are multiplied as rows that do not are, to the bit.
TEST_P(AttendCoded, TilesAreReadAsRows) {
  std::mt19937 rng(8);
  int32_t turn = 0;
  std::vector<std::byte> k_memory, v_memory;
  for (const Packing& packing : packings(false)) {
    for (const int32_t head_dim : {64, 128, 576}) {
      if (!has_tiles(packing, head_dim)) continue;
      for (const auto& [first, n_slots] : {std::pair{0, 64}, {0, 1}, {0, 33}, {16, 48}, {32, 19}}) {
        for (const int32_t n_rows : {1, 3, 4, 7}) {
          Case c{packing, packing, head_dim, head_dim, n_slots, n_rows};
          c.n_runs = n_slots >= 48 ? 1 + turn % kMostRuns : 1;
          c.masked = turn % 3 == 1;
          c.scores = turn % 4 < 2;
          c.old_state = turn % 5 < 3;
          c.eight_bits = turn++ % 2 == 0;
          const Inputs in(c, rng);
          Outputs want = run(*GetParam(), in);
          Outputs got =
              run(*GetParam(), in,
                  {in_tile(in.k.side(), n_slots, RowLayout::kKeyTile, first, k_memory),
                   in_tile(in.v.side(), n_slots, RowLayout::kValueTile, first, v_memory)});
          for (int32_t row = 0; row < n_rows; ++row) {
            const auto r = static_cast<size_t>(row);
            ASSERT_EQ(got.state.m[r], want.state.m[r]) << c.text();
            ASSERT_EQ(got.state.s[r], want.state.s[r]) << c.text();
            for (int32_t d = 0; d < head_dim; ++d) {
              ASSERT_EQ(got.state.row(row)[d], want.state.row(row)[d]) << c.text();
            }
            for (int32_t slot = 0; c.scores && slot < n_slots; ++slot) {
              ASSERT_EQ(got.scores[row][slot], want.scores[row][slot]) << c.text();
            }
          }
        }
      }
    }
  }
  EXPECT_GE(turn, 2 * 3 * 5 * 4);
}

// Queries of another unit in the same memory.
TEST_P(AttendCoded, NaNQueriesGiveNaNAndNothingElse) {
  std::mt19937 rng(7);
  Case c{{Levels::kSigned, 8, Scaling::kGroup}, {Levels::kSigned, 8, Scaling::kGroup}};
  Inputs in(c, rng);
  in.q[3][5] = test::kNan;  // row 1 of the call
  const Outputs out = run(*GetParam(), in);
  EXPECT_TRUE(std::isnan(out.state.s[1]));
  EXPECT_TRUE(std::isnan(out.state.row(1)[0]));
  for (const int32_t row : {0, 2}) {
    EXPECT_FALSE(std::isnan(out.state.s[static_cast<size_t>(row)]));
    EXPECT_FALSE(std::isnan(out.state.row(row)[0]));
  }
}

TEST(AttendsCoded, RefusesWhatHasNoIntegerLevels) {
  const Packing int8{Levels::kSigned, 8, Scaling::kGroup};
  const Packing nf4{Levels::kNf4, 4, Scaling::kGroup};
  const Packing int4{Levels::kUnsigned, 4, Scaling::kGroupZero};
  const Packing unsigned8{Levels::kUnsigned, 8, Scaling::kGroupZero};
  EXPECT_TRUE(attends_coded(int8, 100, int8, 7));
  EXPECT_TRUE(attends_coded(unsigned8, 100, int8, 7));
  EXPECT_TRUE(attends_coded(int4, 96, int4, 64));
  EXPECT_FALSE(attends_coded(nf4, 64, int8, 64));
  EXPECT_FALSE(attends_coded(int8, 64, nf4, 64));
  EXPECT_FALSE(attends_coded(int8, 64, unsigned8, 64));
  EXPECT_FALSE(attends_coded(int4, 80, int8, 80));
}

INSTANTIATE_TEST_SUITE_P(Tables, AttendCoded, test::all_tables(), test::table_name);

}  // namespace
}  // namespace kvasir
