// The residual tier: neighbours against brute force, rows restored, who lives how long, what it
// weighs. Golden tests of docs/deltakv.md in their order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "cache/f16_tier.h"
#include "cache/reference_search.h"
#include "cache/residual_tier.h"
#include "cache/test_rows.h"

namespace kvasir {
namespace {

using testing::Sequence;
using testing::ThreadFor;

constexpr LayerGeometry kGeometry{2, 64, 32};

RopeSpec half_rope(int32_t head_dim) {  // half of the channels rotate, from the second pair on
  RopeSpec spec;
  spec.neox = true;
  spec.offset = 2;
  for (int32_t i = 0; i < head_dim / 4; ++i) {
    spec.frequencies.push_back(std::pow(10000.0, -4.0 * i / head_dim));
  }
  return spec;
}

// Tokens that are alike now and then: sums of a few directions, keys rotated at their positions.
Sequence alike(const LayerGeometry& g, int32_t n, const RopeTable* rope, uint32_t seed) {
  const Sequence base = Sequence::random(g, 7, seed);
  Sequence s = Sequence::random(g, n, seed + 1);
  for (int32_t t = 0; t < n; ++t) {
    float* k = s.k.data() + ptrdiff_t{t} * g.width_k();
    float* v = s.v.data() + ptrdiff_t{t} * g.width_v();
    for (int32_t d = 0; d < g.width_k(); ++d)
      k[d] = 0.2F * k[d] + base.k_row((t % 7) * (t % 7) % 7)[d];
    for (int32_t d = 0; d < g.width_v(); ++d)
      v[d] = 0.2F * v[d] + base.v_row((t % 7) * (t % 7) % 7)[d];
    for (int32_t h = 0; rope != nullptr && h < g.n_kv_heads; ++h) {
      rope->rotate(t, k + ptrdiff_t{h} * g.head_dim_k);
    }
    for (int32_t d = 0; d < g.width_k(); ++d) k[d] = half_to_float(float_to_half(k[d]));
    for (int32_t d = 0; d < g.width_v(); ++d) v[d] = half_to_float(float_to_half(v[d]));
  }
  return s;
}

// A tier with what it takes rows from. Token t of the text is at position t.
class Text {
 public:
  Text(const ResidualParams& params, int32_t n_tokens, bool rotated = true, int32_t n_sinks = 4,
       const LayerGeometry& g = kGeometry)
      : rope_(half_rope(g.head_dim_k)), n_sinks_(n_sinks), f16_(g, best_kernels(), arena_) {
    rope_.cover(n_tokens);
    rows_ = alike(g, n_tokens, rotated ? &rope_ : nullptr, 5);
    EXPECT_TRUE(f16_.reserve(0, n_tokens));
    f16_.store_k(0, {rows_.k_row(0), g.width_k(), n_tokens});
    f16_.store_v(0, {rows_.v_row(0), g.width_v(), n_tokens});
    tier_ = std::make_unique<ResidualTier>(g, params, best_kernels(), arena_);
    if (rotated) tier_->set_rope(&rope_);
    positions_.resize(static_cast<size_t>(n_tokens));
    std::iota(positions_.begin(), positions_.end(), 0);
    live_.clear();
  }

  void take(int32_t n, ParallelFor& parallel) {
    const std::span<const int32_t> all(positions_);
    const int32_t first = n_sinks_ + n_taken_;
    const DemotedRows demoted{f16_, first, n,
                              all.subspan(static_cast<size_t>(first), static_cast<size_t>(n)),
                              all.first(static_cast<size_t>(n_sinks_))};
    ASSERT_TRUE(tier_->append(demoted, parallel, scratch_));
    for (int32_t i = 0; i < n; ++i) live_.push_back(first + i);
    n_taken_ += n;
  }

  // Keeps the slots of `survivors`, all of them from `first` on.
  void keep(int32_t first, const std::vector<int32_t>& survivors) {
    tier_->keep(first, survivors, 0);
    std::vector<int32_t> live(live_.begin(), live_.begin() + first);
    for (const int32_t slot : survivors) live.push_back(live_[static_cast<size_t>(slot)]);
    live_ = live;
    ASSERT_EQ(tier_->n_rows(), static_cast<int32_t>(live_.size()));
  }

  // Largest difference of what is read from the text, over the largest value.
  double error() const {
    const LayerGeometry& g = tier_->codec().geometry();
    std::vector<float> row(static_cast<size_t>(std::max(g.head_dim_k, g.head_dim_v)));
    double worst = 0;
    for (size_t slot = 0; slot < live_.size(); ++slot) {
      const int32_t token = live_[slot];
      for (int32_t h = 0; h < g.n_kv_heads; ++h) {
        tier_->read_k(h, static_cast<int32_t>(slot), 1, &token, row.data());
        for (int32_t d = 0; d < g.head_dim_k; ++d) {
          const float exact = rows_.k_row(token)[h * g.head_dim_k + d];
          worst = std::max(worst, std::abs(double{row[static_cast<size_t>(d)]} - double{exact}));
        }
        tier_->read_v(h, static_cast<int32_t>(slot), 1, row.data());
        for (int32_t d = 0; d < g.head_dim_v; ++d) {
          const float exact = rows_.v_row(token)[h * g.head_dim_v + d];
          worst = std::max(worst, std::abs(double{row[static_cast<size_t>(d)]} - double{exact}));
        }
      }
    }
    return worst;
  }

  // x of a token: K of all heads without rotation, V of all heads.
  std::vector<float> vector_of(int32_t token) const {
    const LayerGeometry& g = tier_->codec().geometry();
    std::vector<float> x(rows_.k_row(token), rows_.k_row(token) + g.width_k());
    for (int32_t h = 0; h < g.n_kv_heads; ++h) {
      rope_.rotate_back(token, x.data() + ptrdiff_t{h} * g.head_dim_k);
    }
    x.insert(x.end(), rows_.v_row(token), rows_.v_row(token) + g.width_v());
    return x;
  }

  ResidualTier& tier() { return *tier_; }
  PageArena& arena() { return arena_; }
  const std::vector<int32_t>& live() const { return live_; }

 private:
  RopeTable rope_;
  int32_t n_sinks_;
  PageArena arena_;
  F16Tier f16_;
  Sequence rows_;
  std::unique_ptr<ResidualTier> tier_;
  EncodeScratch scratch_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> live_;  // token of each slot
  int32_t n_taken_ = 0;
};

ResidualParams exact_params() {
  ResidualParams params;
  params.bits = 16;
  params.int8 = false;
  return params;
}

// The indices of references are the order in which tokens became one, until one is freed.
std::vector<int32_t> token_of_reference(const std::vector<int32_t>& blocks, int32_t stride,
                                        int32_t n_sinks) {
  std::vector<int32_t> tokens(static_cast<size_t>(n_sinks));
  std::iota(tokens.begin(), tokens.end(), 0);
  int32_t first = n_sinks;
  for (const int32_t n : blocks) {
    for (int32_t r = 0; r < n; r += stride) tokens.push_back(first + r);
    first += n;
  }
  return tokens;
}

// What a set of references is compared by: all of x, or K and V of one head.
std::vector<float> part_of(const std::vector<float>& x, const LayerGeometry& g, int32_t head) {
  if (head < 0) return x;
  const auto k = x.begin() + ptrdiff_t{head} * g.head_dim_k;
  const auto v = x.begin() + g.width_k() + ptrdiff_t{head} * g.head_dim_v;
  std::vector<float> part(k, k + g.head_dim_k);
  part.insert(part.end(), v, v + g.head_dim_v);
  return part;
}

double squared_distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t d = 0; d < a.size(); ++d) sum += std::pow(double{a[d]} - double{b[d]}, 2);
  return sum;
}

class Fathers : public ::testing::TestWithParam<bool> {};

TEST_P(Fathers, AreTheNearestAtOrBeforeTheToken) {
  ResidualParams params = exact_params();
  params.stride = 7;
  params.neighbours = 3;
  params.per_head = GetParam();
  const std::vector<int32_t> blocks{384, 128, 128};
  Text text(params, 700);
  ThreadFor threads(3);
  for (const int32_t n : blocks) text.take(n, threads);
  const std::vector<int32_t> tokens = token_of_reference(blocks, 7, 4);
  ASSERT_EQ(text.tier().n_references(), static_cast<int32_t>(tokens.size()));
  std::vector<std::vector<float>> references(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    references[i].resize(static_cast<size_t>(text.tier().codec().width()));
    text.tier().read_reference(static_cast<int32_t>(i), references[i].data());
  }
  int32_t n_far = 0;
  for (int32_t set = 0; set < text.tier().codec().n_sets(); ++set) {
    const int32_t head = params.per_head ? set : -1;
    std::vector<std::vector<float>> compared;
    for (const auto& x : references) compared.push_back(part_of(x, kGeometry, head));
    for (size_t slot = 0; slot < text.live().size(); ++slot) {
      const int32_t token = text.live()[slot];
      std::array<int32_t, kMostNeighbours> room{};
      const auto fathers = text.tier().fathers(static_cast<int32_t>(slot), room, set);
      if (text.tier().reference_of(static_cast<int32_t>(slot)) >= 0) {
        EXPECT_TRUE(fathers.empty());
        continue;
      }
      ASSERT_EQ(fathers.size(), 3U);
      const std::vector<float> x = part_of(text.vector_of(token), kGeometry, head);
      double farthest = 0;
      std::set<int32_t> chosen;
      for (const int32_t father : fathers) {
        EXPECT_LE(tokens[static_cast<size_t>(father)], token);
        farthest = std::max(farthest, squared_distance(x, compared[static_cast<size_t>(father)]));
        chosen.insert(father);
        if (token - tokens[static_cast<size_t>(father)] > 16) ++n_far;
      }
      EXPECT_EQ(chosen.size(), 3U);
      for (size_t i = 0; i < tokens.size(); ++i) {
        if (tokens[i] > token || chosen.contains(static_cast<int32_t>(i))) continue;
        EXPECT_GE(squared_distance(x, compared[i]), farthest * (1 - 1e-5)) << "token " << token;
      }
    }
  }
  EXPECT_GT(n_far, 100);
}

INSTANTIATE_TEST_SUITE_P(PerTokenAndPerHead, Fathers, ::testing::Bool());

TEST(ResidualTier, EachHeadIsRestoredFromItsOwnReferences) {
  for (const auto choice : {ReferenceChoice::kNearest, ReferenceChoice::kRandom,
                            ReferenceChoice::kLocal, ReferenceChoice::kMean}) {
    for (const auto metric : {ReferenceMetric::kFull, ReferenceMetric::kHalves}) {
      ResidualParams params = exact_params();
      params.per_head = true;
      params.choice = choice;
      params.metric = metric;
      Text text(params, 900);
      ThreadFor threads(3);
      text.take(512, threads);
      EXPECT_LT(text.error(), 0.006);
      // Of a text of which some left: references that are used stay, freed ones are taken anew.
      std::vector<int32_t> survivors;
      for (int32_t slot = 100; slot < 512; slot += 3) survivors.push_back(slot);
      text.keep(100, survivors);
      text.take(256, threads);
      EXPECT_LT(text.error(), 0.006);
    }
  }
}

TEST(ResidualTier, BinarySixteenDifferencesRestoreRowsToRounding) {
  for (const bool rotated : {true, false}) {
    Text text(exact_params(), 600, rotated);
    ThreadFor threads(2);
    text.take(512, threads);
    // A difference of at most 8, rounded to binary16; a key is rotated back and forth.
    EXPECT_LT(text.error(), rotated ? 0.006 : 0.005) << rotated;
  }
}

TEST(ResidualTier, FourBitsAreWithinHalfAStep) {
  ResidualParams params;
  params.turned = false;
  Text text(params, 600, false);
  SerialFor serial;
  text.take(512, serial);
  // Differences span at most 8: half of 8 / 15, with what int8 takes from references that stand.
  EXPECT_LT(text.error(), 0.3);
  params.bits = 2;
  Text coarse(params, 600, false);
  coarse.take(512, serial);
  EXPECT_GT(coarse.error(), text.error());
}

TEST(ResidualTier, ControlsChooseWhatTheySay) {
  for (const auto choice :
       {ReferenceChoice::kLocal, ReferenceChoice::kRandom, ReferenceChoice::kMean}) {
    ResidualParams params = exact_params();
    params.choice = choice;
    params.neighbours = 2;
    Text text(params, 600);
    SerialFor serial;
    text.take(512, serial);
    EXPECT_LT(text.error(), 0.006);
    const std::vector<int32_t> tokens = token_of_reference({512}, 10, 4);
    for (size_t slot = 0; slot < 512; ++slot) {
      std::array<int32_t, kMostNeighbours> room{};
      const auto fathers = text.tier().fathers(static_cast<int32_t>(slot), room);
      const bool stands = slot % 10 == 0 && choice != ReferenceChoice::kMean;
      ASSERT_EQ(fathers.empty(), stands);
      if (stands) continue;
      const int32_t token = text.live()[slot];
      if (choice == ReferenceChoice::kLocal) {
        ASSERT_EQ(fathers.size(), 1U);
        EXPECT_EQ(tokens[static_cast<size_t>(fathers[0])], token - static_cast<int32_t>(slot) % 10);
      } else if (choice == ReferenceChoice::kMean) {
        ASSERT_EQ(fathers.size(), 1U);
        EXPECT_EQ(fathers[0], 4 + static_cast<int32_t>(slot) / 256);
      } else {
        for (const int32_t father : fathers) {
          EXPECT_LE(tokens[static_cast<size_t>(father)], token);
        }
      }
    }
  }
}

TEST(ResidualTier, HalvesWeighAlike) {
  ResidualParams params = exact_params();
  params.neighbours = 1;
  params.metric = ReferenceMetric::kHalves;
  Text text(params, 600);
  SerialFor serial;
  text.take(512, serial);
  EXPECT_LT(text.error(), 0.006);
}

TEST(ResidualTier, ThreadsDoNotMatter) {
  Text one(ResidualParams{}, 600);
  Text three(ResidualParams{}, 600);
  SerialFor serial;
  ThreadFor threads(3);
  one.take(512, serial);
  three.take(512, threads);
  std::vector<float> a(kGeometry.head_dim_k);
  std::vector<float> b(kGeometry.head_dim_k);
  for (int32_t slot = 0; slot < 512; ++slot) {
    one.tier().read_k(1, slot, 1, &slot, a.data());
    three.tier().read_k(1, slot, 1, &slot, b.data());
    ASSERT_EQ(a, b) << slot;
  }
}

TEST(ResidualTier, SurvivorsKeepTheirBytesAndUsedReferencesStay) {
  ResidualParams params = exact_params();
  Text text(params, 1300);
  SerialFor serial;
  std::mt19937 generator(3);
  for (int32_t round = 0; round < 8; ++round) {
    text.take(128, serial);
    std::vector<int32_t> survivors;
    const int32_t first = round * 11 % 50;
    for (int32_t slot = first; slot < text.tier().n_rows(); ++slot) {
      if (generator() % 4 != 0) survivors.push_back(slot);
    }
    text.keep(first, survivors);
    ASSERT_LT(text.error(), 0.006) << "round " << round;
  }
  // All references of tokens that left and that none uses are free.
  std::set<int32_t> needed;
  for (int32_t slot = 0; slot < text.tier().n_rows(); ++slot) {
    std::array<int32_t, kMostNeighbours> room{};
    for (const int32_t father : text.tier().fathers(slot, room)) needed.insert(father);
    if (text.tier().reference_of(slot) >= 0) needed.insert(text.tier().reference_of(slot));
  }
  for (int32_t sink = 0; sink < 4; ++sink) needed.insert(sink);
  EXPECT_EQ(text.tier().n_references(), static_cast<int32_t>(needed.size()));
  // What is free is given back; the others get other numbers and say the same.
  const double error = text.error();
  const size_t before = text.tier().bytes();
  text.tier().trim();
  EXPECT_LT(text.tier().bytes(), before);
  EXPECT_EQ(text.error(), error);
  EXPECT_EQ(text.tier().n_references(), static_cast<int32_t>(needed.size()));
  LayerLoad load;
  text.tier().describe(load);
  EXPECT_EQ(load.references.n_live, load.references.n_indices);
  text.take(128, serial);
  EXPECT_LT(text.error(), 0.006);
  text.keep(0, {});
  EXPECT_EQ(text.tier().n_references(), 0);
  EXPECT_EQ(text.tier().bytes(), 0U);
}

TEST(ResidualTier, ACopyIsTheSame) {
  Text text(ResidualParams{}, 600);
  SerialFor serial;
  text.take(384, serial);
  PageArena arena;
  ResidualTier copy(kGeometry, ResidualParams{}, best_kernels(), arena);
  ASSERT_TRUE(copy.copy_from(text.tier()));
  ASSERT_EQ(copy.n_rows(), 384);
  std::vector<float> a(kGeometry.head_dim_v);
  std::vector<float> b(kGeometry.head_dim_v);
  for (int32_t slot = 0; slot < 384; ++slot) {
    text.tier().read_v(1, slot, 1, a.data());
    copy.read_v(1, slot, 1, b.data());
    ASSERT_EQ(a, b) << slot;
  }
}

// 16 bits number the first references, 24 the later ones.
TEST(ResidualTier, MoreThan65535References) {
  constexpr LayerGeometry kSmall{1, 4, 4};
  ResidualParams params = exact_params();
  params.stride = 2;
  params.choice = ReferenceChoice::kRandom;
  params.neighbours = 2;
  Text text(params, 140100, false, 4, kSmall);
  SerialFor serial;
  text.take(128 * 900, serial);
  text.take(128 * 190, serial);
  ASSERT_GT(text.tier().n_references(), 66000);
  EXPECT_LT(text.error(), 0.005);
  std::vector<int32_t> survivors;
  for (int32_t slot = 1; slot < text.tier().n_rows(); slot += 3) survivors.push_back(slot);
  text.keep(1, survivors);
  EXPECT_LT(text.error(), 0.005);
  text.tier().trim();
  EXPECT_LT(text.error(), 0.005);
  LayerLoad load;
  text.tier().describe(load);
  ASSERT_LT(load.references.n_indices, 65535);  // those that are left need 16 bits
  EXPECT_EQ(load.references.wide_bytes, 0);
}

// Spec 1.11: D (1 - 1/s) at 4 bits with a scale and zero for 64 channels, k fathers of 2 bytes, and
// D / s at 8 bits with a scale; beside it 16 bytes for 64 slots and 12 for each reference.
TEST(ResidualTier, BytesAreTheFormula) {
  constexpr LayerGeometry kSmolLM2{3, 64, 64};
  Text text(ResidualParams{}, 6600, false, 4, kSmolLM2);
  SerialFor serial;
  text.take(6528, serial);
  const double width = 384;
  const double difference = 0.9 * (width / 2 + width / 64 * 4 + 4 * 2);
  const double reference = 0.1 * (width + width / 64 * 2);
  const double places = 16.0 / 64 + 0.1 * (4 + 4 + 4);
  const double expected = difference + reference + places;
  const double found = static_cast<double>(text.tier().bytes()) / 6528;
  EXPECT_NEAR(found, expected, 0.03 * expected);
  EXPECT_LT(found / (2 * width), 0.325);
  EXPECT_LT(expected / (2 * width), 0.32);
}

TEST(RopeTable, RotatesAsTheFormulaSaysAndBack) {
  for (const bool neox : {true, false}) {
    RopeSpec spec = half_rope(64);
    spec.neox = neox;
    for (double& f : spec.frequencies) f *= 0.25;  // as linear scaling or YaRN change them
    RopeTable table(spec);
    table.cover(131071);
    const auto n = static_cast<int32_t>(spec.frequencies.size());
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    for (const int32_t position : {0, 1, 255, 256, 257, 8191, 131071}) {
      std::vector<float> row(64);
      for (float& x : row) x = normal(generator);
      std::vector<float> turned = row;
      table.rotate(position, turned.data());
      for (int32_t i = 0; i < n; ++i) {
        const auto a = static_cast<size_t>(2 + (neox ? i : 2 * i));
        const size_t b = a + (neox ? static_cast<size_t>(n) : 1);
        const double angle = spec.frequencies[static_cast<size_t>(i)] * position;
        EXPECT_NEAR(turned[a], row[a] * std::cos(angle) - row[b] * std::sin(angle), 2e-6);
        EXPECT_NEAR(turned[b], row[a] * std::sin(angle) + row[b] * std::cos(angle), 2e-6);
      }
      for (const size_t still : {size_t{0}, size_t{1}, size_t{40}, size_t{63}}) {
        EXPECT_EQ(turned[still], row[still]);
      }
      table.rotate_back(position, turned.data());
      for (size_t d = 0; d < 64; ++d) EXPECT_NEAR(turned[d], row[d], 2e-6);
    }
  }
}

}  // namespace
}  // namespace kvasir
