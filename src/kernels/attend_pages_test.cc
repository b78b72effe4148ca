// Pages folded one after the other against a softmax over all tokens, and what must not be read.
#include <numeric>

#include "kernels/test_support.h"

namespace kvasir {
namespace {

using test::kHalfNan;
using test::kInfinity;
using test::kUnit;
using test::Page;
using test::Rows;
using test::State;

PageArgs args_of(const Page& page, const Rows& q, int32_t n_rows) {
  PageArgs a{};
  a.k = page.k.data();
  a.v = page.v.data();
  a.head_dim_k = page.head_dim_k;
  a.head_dim_v = page.head_dim_v;
  a.n_slots = page.n_slots;
  a.n_rows = n_rows;
  a.q = q.pointers();
  a.scale = 2.0f / std::sqrt(static_cast<float>(page.head_dim_k));
  return a;
}

Rows random_rows(int32_t n_rows, int32_t n, std::mt19937& rng) {
  Rows rows(n_rows, n, 0.0f);
  std::normal_distribution<float> normal;
  for (int32_t r = 0; r < n_rows; ++r) {
    for (int32_t d = 0; d < n; ++d) rows[r][d] = normal(rng);
  }
  return rows;
}

// softmax(q K^T scale) V over all slots of all pages, two passes in double; [head_dim_v].
std::vector<double> dense_attention(std::vector<Page>& pages, const PageArgs& a, int32_t row) {
  std::vector<double> scores;
  for (Page& page : pages) {
    for (int32_t slot = 0; slot < page.n_slots; ++slot) {
      double dot = 0;
      for (int32_t d = 0; d < page.head_dim_k; ++d) {
        dot += static_cast<double>(a.q[row][d]) *
               static_cast<double>(half_to_float(page.k_at(slot, d)));
      }
      scores.push_back(dot * static_cast<double>(a.scale));
    }
  }
  const double max = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  std::vector<double> out(static_cast<size_t>(a.head_dim_v));
  auto score = scores.begin();
  for (Page& page : pages) {
    for (int32_t slot = 0; slot < page.n_slots; ++slot, ++score) {
      const double p = std::exp(*score - max);
      sum += p;
      for (int32_t d = 0; d < page.head_dim_v; ++d) {
        out[static_cast<size_t>(d)] += p * static_cast<double>(half_to_float(page.v_at(slot, d)));
      }
    }
  }
  for (double& x : out) x /= sum;
  return out;
}

class AttendPages : public test::TableTest {};

TEST_P(AttendPages, InAnyOrderGiveTheDenseSoftmax) {
  std::mt19937 rng(99);
  for (const int32_t n_rows : {1, 3, 12}) {
    constexpr int32_t kDimK = 64, kDimV = 72;
    std::vector<Page> pages;
    for (const int32_t n_slots : {64, 64, 9, 64, 1}) {
      pages.push_back(test::random_page(kDimK, kDimV, n_slots, rng));
    }
    const Rows q = random_rows(n_rows, kDimK, rng);
    std::vector<size_t> order(pages.size());
    std::iota(order.begin(), order.end(), size_t{0});
    for (int repeat = 0; repeat < 4; ++repeat) {
      State state(n_rows, kDimV);
      for (const size_t i : order)
        GetParam()->attend_page(args_of(pages[i], q, n_rows), state.view());
      for (int32_t r = 0; r < n_rows; ++r) {
        const auto want = dense_attention(pages, args_of(pages[0], q, n_rows), r);
        for (int32_t d = 0; d < kDimV; ++d) {
          const auto got = static_cast<double>(state.row(r)[d] / state.s[static_cast<size_t>(r)]);
          // Scores of about |q||k| scale <= 20, off by (64 + 4) units; values below 5.
          EXPECT_NEAR(got, want[static_cast<size_t>(d)], 2 * 20 * 5 * 68 * kUnit)
              << "row " << r << ", channel " << d << ", order " << repeat;
        }
      }
      std::shuffle(order.begin(), order.end(), rng);
    }
  }
}

// Fills K and V of one slot with NaN.
void poison(Page& page, int32_t slot) {
  for (int32_t d = 0; d < page.head_dim_k; ++d) page.k_at(slot, d) = kHalfNan;
  for (int32_t d = 0; d < page.head_dim_v; ++d) page.v_at(slot, d) = kHalfNan;
}

// Rows hide different slots: `row % 3` and those that all hide. Poisoning what a row hides changes
// no bit of that row; who sees a poisoned slot becomes NaN.
TEST_P(AttendPages, HiddenSlotsAreNeverRead) {
  std::mt19937 rng(5);
  for (const int32_t n_rows : {1, 2, 3, 8, 21}) {
    Page page = test::random_page(40, 37, 64, rng);
    const Rows q = random_rows(n_rows, 40, rng);
    constexpr int32_t kHiddenFromAll = 17, kSeenByTwoThirds = 30;
    std::vector<std::vector<uint16_t>> masks(static_cast<size_t>(n_rows),
                                             std::vector<uint16_t>(64));
    std::vector<const uint16_t*> pointers;
    for (size_t r = 0; r < masks.size(); ++r) {
      masks[r][kHiddenFromAll] = kHalfMinusInfinity;
      if (r % 3 == 0) masks[r][kSeenByTwoThirds] = kHalfMinusInfinity;
      pointers.push_back(masks[r].data());
    }
    PageArgs a = args_of(page, q, n_rows);
    a.mask = pointers.data();
    State clean(n_rows, 37), poisoned(n_rows, 37);
    GetParam()->attend_page(a, clean.view());
    poison(page, kHiddenFromAll);
    poison(page, kSeenByTwoThirds);
    GetParam()->attend_page(a, poisoned.view());
    for (int32_t r = 0; r < n_rows; ++r) {
      const auto i = static_cast<size_t>(r);
      for (int32_t d = 0; d < 37; ++d) {
        if (r % 3 == 0) {
          EXPECT_EQ(poisoned.row(r)[d], clean.row(r)[d]) << "row " << r << " of " << n_rows;
        } else {
          EXPECT_TRUE(std::isnan(poisoned.row(r)[d])) << "row " << r << " of " << n_rows;
        }
      }
      if (r % 3 == 0) {
        EXPECT_EQ(poisoned.s[i], clean.s[i]);
      }
    }
  }
}

// V alone is bad, and not only NaN: rows that see it get it, the others do not.
TEST_P(AttendPages, InfiniteValuesReachOnlyRowsThatSeeThem) {
  std::mt19937 rng(6);
  for (const int32_t n_rows : {2, 20}) {
    Page page = test::random_page(16, 20, 64, rng);
    for (const int32_t slot : {3, 63}) page.v_at(slot, 19) = kHalfInfinity;
    std::vector<uint16_t> mask(64);
    mask[3] = mask[63] = kHalfMinusInfinity;
    std::vector<const uint16_t*> pointers(static_cast<size_t>(n_rows), nullptr);
    pointers[1] = mask.data();
    PageArgs a = args_of(page, random_rows(n_rows, 16, rng), n_rows);
    const Rows q = random_rows(n_rows, 16, rng);
    a.q = q.pointers();
    a.mask = pointers.data();
    State state(n_rows, 20);
    GetParam()->attend_page(a, state.view());
    for (int32_t r = 0; r < n_rows; ++r) {
      EXPECT_EQ(std::isinf(state.row(r)[19]), r != 1) << "row " << r;
      EXPECT_TRUE(std::isfinite(state.row(r)[18])) << "row " << r;
    }
  }
}

// A score of -inf without a mask is a hidden slot; a page of them changes nothing.
TEST_P(AttendPages, MinusInfinityFromKHidesTheSlot) {
  std::mt19937 rng(8);
  for (const int32_t n_rows : {1, 12}) {
    Page page = test::random_page(8, 8, 20, rng);
    for (int32_t slot = 0; slot < 20; ++slot) {
      for (int32_t d = 0; d < 8; ++d) page.k_at(slot, d) = kHalfMinusInfinity;
      for (int32_t d = 0; d < 8; ++d) page.v_at(slot, d) = kHalfNan;
    }
    const Rows q(n_rows, 8, 1.0f);
    State state(n_rows, 8);
    const State before(n_rows, 8);
    GetParam()->attend_page(args_of(page, q, n_rows), state.view());
    EXPECT_EQ(state.m, before.m);
    EXPECT_EQ(state.s, before.s);
    EXPECT_EQ(state.acc, before.acc);
  }
}

// A NaN that a row does see must surface, whatever the other slots hold, also when nothing else is
// there to be seen; only the maximum passes it over.
TEST_P(AttendPages, VisibleNanSurfaces) {
  std::mt19937 rng(9);
  int32_t turn = 0;
  for (const int32_t n_rows : {1, 12}) {
    for (const auto& [slot, n_slots] : {std::pair{0, 64}, {5, 64}, {63, 64}, {0, 1}, {0, 1}}) {
      Page page = test::random_page(8, 8, n_slots, rng);
      page.k_at(slot, 3) = kHalfNan;
      const Rows q = random_rows(n_rows, 8, rng);
      State state(n_rows, 8);
      Rows scores(n_rows, n_slots, 0.0f);
      PageArgs args = args_of(page, q, n_rows);
      args.scores = scores.pointers();
      args.soft_cap = turn++ % 2 == 0 ? 5.0f : 0.0f;
      GetParam()->attend_page(args, state.view());
      for (int32_t r = 0; r < n_rows; ++r) {
        SCOPED_TRACE(testing::Message() << "row " << r << ", slot " << slot << " of " << n_slots
                                        << ", soft cap " << args.soft_cap);
        const auto larger = [](float a, float b) { return std::fmax(a, b); };  // passes NaN over
        EXPECT_EQ(state.m[static_cast<size_t>(r)],
                  std::accumulate(scores[r], scores[r] + n_slots, -kInfinity, larger));
        EXPECT_TRUE(std::isnan(state.row(r)[0]));
        EXPECT_TRUE(std::isnan(state.s[static_cast<size_t>(r)]));
      }
    }
  }
}

// Bit for bit the same alone, in fours and among seventy, so that neither threads nor the size of
// a prefill chunk can change a result.
TEST_P(AttendPages, RowsDoNotDependOnTheirCompany) {
  std::mt19937 rng(12);
  constexpr int32_t kRows = 70, kDimK = 100, kDimV = 72;
  const Page page = test::random_page(kDimK, kDimV, 61, rng);
  const Rows q = random_rows(kRows, kDimK, rng);
  std::vector<std::vector<uint16_t>> masks(kRows, std::vector<uint16_t>(61));
  std::vector<const uint16_t*> pointers;
  for (size_t r = 0; r < kRows; ++r) {
    std::fill(masks[r].begin() + 1 + static_cast<ptrdiff_t>(r % 61), masks[r].end(),
              kHalfMinusInfinity);
    pointers.push_back(masks[r].data());
  }
  const auto attend = [&](int32_t rows_per_call) {
    State state(kRows, kDimV);
    for (int32_t first = 0; first < kRows; first += rows_per_call) {
      PageArgs a = args_of(page, q, std::min(rows_per_call, kRows - first));
      a.q += first;
      a.mask = pointers.data() + first;
      const SoftmaxState all = state.view();
      const SoftmaxState part{all.m + first, all.s + first, state.row(first), all.acc_stride};
      for (int repeat = 0; repeat < 2; ++repeat) GetParam()->attend_page(a, part);
    }
    return state;
  };
  const State together = attend(kRows);
  for (const int32_t rows_per_call : {1, 3, 4, 8, 9}) {
    const State parts = attend(rows_per_call);
    EXPECT_EQ(parts.m, together.m) << rows_per_call;
    EXPECT_EQ(parts.s, together.s) << rows_per_call;
    EXPECT_EQ(parts.acc, together.acc) << rows_per_call;
  }
}

// Scores far apart: the small page must vanish or the old state must, without NaN or overflow.
TEST_P(AttendPages, ExtremeScoresStayFinite) {
  std::mt19937 rng(10);
  for (const float size : {60000.0f, -60000.0f}) {
    Page big = test::random_page(4, 4, 3, rng);
    Page small = test::random_page(4, 4, 3, rng);
    for (int32_t slot = 0; slot < 3; ++slot) big.k_at(slot, 0) = float_to_half(size);
    Rows q(1, 4, 0.0f);
    q[0][0] = 100.0f;
    State state(1, 4);
    for (const Page* page : {&small, &big, &small})
      GetParam()->attend_page(args_of(*page, q, 1), state.view());
    std::vector<Page> kept;
    kept.push_back(std::move(size > 0 ? big : small));
    const auto want = dense_attention(kept, args_of(kept[0], q, 1), 0);
    for (int32_t d = 0; d < 4; ++d) {
      const auto got = static_cast<double>(state.row(0)[d] / state.s[0]);
      EXPECT_NEAR(got, want[static_cast<size_t>(d)], 1e-4) << "size " << size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, AttendPages, test::all_tables(), test::table_name);

}  // namespace
}  // namespace kvasir
