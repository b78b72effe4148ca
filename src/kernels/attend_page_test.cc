// Every table against the reference, over shapes, masks and options.
#include <array>
#include <optional>
#include <sstream>

#include "kernels/reference/reference.h"
#include "kernels/test_support.h"

namespace kvasir {
namespace {

using test::kCanary;
using test::kInfinity;
using test::kUnit;
using test::Outputs;
using test::Page;
using test::Rows;

enum class MaskKind { kNone, kNullRows, kCausal, kRandom, kAllHidden, kCount };

struct Case {
  int32_t head_dim_k = 64, head_dim_v = 64, n_slots = kPageSlots, n_rows = 3;
  MaskKind mask = MaskKind::kNone;
  float soft_cap = 0;
  bool slopes = false, scores = false, old_state = false;

  std::string text() const {
    std::ostringstream out;
    out << "head_dim " << head_dim_k << '/' << head_dim_v << ", slots " << n_slots << ", rows "
        << n_rows << ", mask " << static_cast<int>(mask) << ", cap " << soft_cap << ", slopes "
        << slopes << ", scores " << scores << ", old state " << old_state;
    return out.str();
  }
};

// Inputs of one call; the arguments point into it.
class Inputs {
 public:
  Inputs(const Case& c, std::mt19937& rng)
      : case_(c),
        page(test::random_page(c.head_dim_k, c.head_dim_v, c.n_slots, rng)),
        q_(c.n_rows, c.head_dim_k, 0.0f) {
    std::normal_distribution<float> normal;
    for (int32_t r = 0; r < c.n_rows; ++r) {
      for (int32_t d = 0; d < c.head_dim_k; ++d) q_[r][d] = normal(rng);
      slopes_.push_back(std::exp2(-static_cast<float>(r % 8) / 2));
    }
    make_masks(rng);
  }

  bool hidden(int32_t row, int32_t slot) const {
    const uint16_t* mask =
        mask_pointers_.empty() ? nullptr : mask_pointers_[static_cast<size_t>(row)];
    return mask != nullptr && mask[slot] == kHalfMinusInfinity;
  }

  PageArgs args(Rows* scores) const {
    PageArgs a{};
    a.k = page.k.data();
    a.v = page.v.data();
    a.head_dim_k = case_.head_dim_k;
    a.head_dim_v = case_.head_dim_v;
    a.n_slots = case_.n_slots;
    a.n_rows = case_.n_rows;
    a.q = q_.pointers();
    a.scale = 1.5f / std::sqrt(static_cast<float>(case_.head_dim_k));
    a.soft_cap = case_.soft_cap;
    a.mask = mask_pointers_.empty() ? nullptr : mask_pointers_.data();
    a.slope = case_.slopes ? slopes_.data() : nullptr;
    a.scores = scores != nullptr ? scores->pointers() : nullptr;
    return a;
  }

  // Bound of the error of a f32 score: a sum of head_dim_k products in any order (Higham 2002,
  // section 3.1), then scale, cap (tanh to 2e-7) and mask.
  // @param unit  rounding of an operand, on top of that of sums
  double score_error(int32_t row, int32_t slot, double unit = 0) {
    const PageArgs a = args(nullptr);
    double norm = 0, mask = 0;
    for (int32_t d = 0; d < case_.head_dim_k; ++d) {
      norm += std::abs(static_cast<double>(a.q[row][d]) *
                       static_cast<double>(half_to_float(page.k_at(slot, d))));
    }
    if (a.mask != nullptr && a.mask[row] != nullptr) {
      mask = std::abs(static_cast<double>(half_to_float(a.mask[row][slot])));
    }
    return (kUnit * (case_.head_dim_k + 4) + 2.01 * unit) * norm * static_cast<double>(a.scale) +
           kUnit * 4 * mask + 2e-7 * static_cast<double>(case_.soft_cap);
  }

 private:
  void make_masks(std::mt19937& rng) {
    if (case_.mask == MaskKind::kNone) return;
    std::uniform_real_distribution<float> uniform;
    for (int32_t r = 0; r < case_.n_rows; ++r) {
      if (case_.mask == MaskKind::kNullRows && r % 2 == 0) {
        mask_pointers_.push_back(nullptr);
        continue;
      }
      auto& mask = masks_.emplace_back(static_cast<size_t>(case_.n_slots), uint16_t{0});
      for (int32_t slot = 0; slot < case_.n_slots; ++slot) {
        const bool hide = case_.mask == MaskKind::kAllHidden ||
                          (case_.mask == MaskKind::kCausal && slot > 2 * r) ||
                          (case_.mask == MaskKind::kRandom && uniform(rng) < 0.4f);
        mask[static_cast<size_t>(slot)] =
            hide ? kHalfMinusInfinity
                 : float_to_half(case_.mask == MaskKind::kCausal ? 0.0f : -4 * uniform(rng));
      }
      mask_pointers_.push_back(mask.data());
    }
  }

  Case case_;

 public:
  Page page;

 private:
  Rows q_;
  std::vector<float> slopes_;
  std::vector<std::vector<uint16_t>> masks_;
  std::vector<const uint16_t*> mask_pointers_;
};

Outputs outputs_of(const Case& c) { return {c.n_rows, c.head_dim_v, c.n_slots, c.old_state}; }

using Attend = decltype(KvKernels::attend_page);

Outputs run(Attend attend, const Case& c, const Inputs& in) {
  Outputs out = outputs_of(c);
  attend(in.args(c.scores ? &out.scores : nullptr), out.state.view());
  return out;
}

// The largest difference in units of its bound, and where.
struct Worst {
  double ratio = 0;
  std::string where;

  void see(double got, double want, double bound, const char* what, int32_t row, int32_t i) {
    if (got == want) return;
    const double difference = std::abs(got - want);
    const double ratio_here = std::isnan(difference) ? HUGE_VAL : difference / bound;
    if (ratio_here <= ratio) return;
    ratio = ratio_here;
    std::ostringstream out;
    out.precision(9);
    out << what << "[row " << row << ", " << i << "] is " << got << ", reference " << want
        << ", bound " << bound;
    where = out.str();
  }
};

void compare_row(const Case& c, Inputs& in, Outputs& got, Outputs& want, int32_t row,
                 double operand_unit, Worst& worst) {
  const auto r = static_cast<size_t>(row);
  double delta = kUnit, largest_v = 0;
  for (int32_t slot = 0; slot < c.n_slots; ++slot) {
    if (!in.hidden(row, slot)) {
      delta = std::max(delta, in.score_error(row, slot, operand_unit));
      for (int32_t d = 0; d < c.head_dim_v; ++d) {
        largest_v = std::max(largest_v,
                             static_cast<double>(std::abs(half_to_float(in.page.v_at(slot, d)))));
      }
    }
    if (c.scores) {
      worst.see(static_cast<double>(got.scores[row][slot]),
                static_cast<double>(want.scores[row][slot]), delta, "score", row, slot);
    }
  }
  worst.see(static_cast<double>(got.state.m[r]), static_cast<double>(want.state.m[r]), delta, "m",
            row, 0);
  // exp(x + delta) is off by delta; a table's exp by 2e-7; sums of at most 66 terms by 66 units.
  const double relative = 2 * delta + 2e-7 + 66 * kUnit;
  const auto s = static_cast<double>(want.state.s[r]);
  worst.see(static_cast<double>(got.state.s[r]), s, relative * s, "s", row, 0);
  for (int32_t d = 0; d < c.head_dim_v; ++d) {
    const double norm = s * std::max(largest_v, 1.0) * (1 + 2.01 * operand_unit / relative);
    worst.see(static_cast<double>(got.state.row(row)[d]),
              static_cast<double>(want.state.row(row)[d]), relative * norm, "acc", row, d);
  }
}

// @param operand_unit  half a step of the format that operands are rounded to, relative; 0: none
void expect_agreement(Attend attend, const Case& c, std::mt19937& rng, double operand_unit = 0) {
  Inputs in(c, rng);
  Outputs want = run(reference::attend_page, c, in);
  Outputs got = run(attend, c, in);
  Worst worst;
  for (int32_t row = 0; row < c.n_rows; ++row) {
    compare_row(c, in, got, want, row, operand_unit, worst);
    for (int32_t i = c.scores ? c.n_slots : 0; i < c.n_slots + 2; ++i) {
      ASSERT_EQ(got.scores[row][i], kCanary) << c.text() << ": written past the scores";
    }
  }
  EXPECT_LE(worst.ratio, 1.0) << c.text() << ": " << worst.where;
  ASSERT_TRUE(got.state.canaries_alive()) << c.text() << ": written past an accumulator";
}

constexpr std::array kHeadDims{1, 7, 31, 32, 33, 64, 80, 96, 100, 128, 129, 192, 256, 576};
constexpr std::array kSlots{1, 15, 16, 17, 63, 64};
constexpr std::array kRows{1, 3, 4, 8, 13, 48};

// Options that turn over with every case.
void set_options(int32_t turn, Case& c) {
  c.mask = static_cast<MaskKind>(turn % static_cast<int32_t>(MaskKind::kCount));
  c.soft_cap = turn % 3 == 1 ? 5.0f : 0.0f;
  c.slopes = turn % 4 == 2;
  c.scores = turn % 7 < 4;
  c.old_state = turn % 11 < 6;
}

class AgainstReference : public test::TableTest {};

// All shapes; the options turn over with every case.
TEST_P(AgainstReference, AgreeForEveryShape) {
  std::mt19937 rng(20240611);
  int32_t turn = 0;
  for (const int32_t head_dim : kHeadDims) {
    for (const int32_t n_slots : kSlots) {
      for (const int32_t n_rows : kRows) {
        if (head_dim >= 192 && n_rows == 48 && n_slots != 17) continue;  // time
        Case c{head_dim, head_dim, n_slots, n_rows};
        set_options(turn++, c);
        expect_agreement(GetParam()->attend_page, c, rng);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// All options with each other, at two shapes with tails.
TEST_P(AgainstReference, AgreeForEveryOption) {
  std::mt19937 rng(7);
  for (int32_t mask = 0; mask < static_cast<int32_t>(MaskKind::kCount); ++mask) {
    for (int32_t bits = 0; bits < 32; ++bits) {
      Case c{48, 40, 64, (bits & 16) != 0 ? 14 : 3};
      c.n_slots = (bits & 1) != 0 ? 37 : 64;
      c.mask = static_cast<MaskKind>(mask);
      c.soft_cap = (bits & 2) != 0 ? 30.0f : 0.0f;
      c.slopes = (bits & 4) != 0;
      c.scores = (bits & 8) != 0;
      c.old_state = bits % 3 == 0;
      expect_agreement(GetParam()->attend_page, c, rng);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(AgainstReference, HeadDimsOfKAndVMayDiffer) {
  std::mt19937 rng(11);
  for (const auto& [k, v] : {std::pair{192, 128}, {128, 192}, {576, 512}, {5, 70}, {70, 5}}) {
    for (const int32_t n_rows : {2, 9, 130}) {
      expect_agreement(GetParam()->attend_page, Case{k, v, 50, n_rows, MaskKind::kRandom}, rng);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, AgainstReference,
                         ::testing::ValuesIn(supported_kernels().subspan(1)), test::table_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AgainstReference);  // a CPU with the reference alone

class AttendPage : public test::TableTest {};

// With operands of 8 significant bits; up to 8 rows it is attend_page.
TEST_P(AttendPage, InBf16AgreesWithTheReference) {
  const Attend attend = GetParam()->attend_page_bf16;
  if (attend == nullptr) GTEST_SKIP() << "this table has no dot product of bf16";
  std::mt19937 rng(8);
  int32_t turn = 0;
  for (const int32_t head_dim : kHeadDims) {
    for (const int32_t n_slots : kSlots) {
      for (const int32_t n_rows : {3, 9, 13, 70}) {
        if (head_dim >= 192 && n_rows == 70 && n_slots != 17) continue;  // time
        Case c{head_dim, head_dim, n_slots, n_rows};
        set_options(turn++, c);
        expect_agreement(attend, c, rng, 0x1p-8);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(AttendPage, FullyHiddenRowsAreUnchanged) {
  std::mt19937 rng(3);
  for (const int32_t n_rows : {1, 4, 40}) {
    Case c{64, 64, 64, n_rows, MaskKind::kAllHidden};
    c.old_state = c.scores = true;
    const Inputs in(c, rng);
    Outputs before = outputs_of(c);
    Outputs after = run(GetParam()->attend_page, c, in);
    EXPECT_EQ(after.state.m, before.state.m);
    EXPECT_EQ(after.state.s, before.state.s);
    EXPECT_EQ(after.state.acc, before.state.acc);
    for (int32_t r = 0; r < n_rows; ++r) EXPECT_EQ(after.scores[r][63], -kInfinity);
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, AttendPage, test::all_tables(), test::table_name);

}  // namespace
}  // namespace kvasir
