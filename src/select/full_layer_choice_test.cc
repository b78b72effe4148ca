// The choice of full layers against every choice there is.
#include "select/full_layer_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace kvasir {
namespace {

using Layers = std::vector<int32_t>;

// Few tokens and few points: many choices are worth the same.
LayerOverlap random_overlap(int32_t n_layers, int32_t n_tokens, int32_t k, uint32_t seed) {
  std::mt19937 generator(seed);
  LayerOverlap overlap(n_layers);
  for (int32_t point = 0; point < 3; ++point) {
    std::vector<Layers> chosen;
    for (int32_t layer = 0; layer < n_layers; ++layer) {
      Layers tokens(static_cast<size_t>(n_tokens));
      for (int32_t i = 0; i < n_tokens; ++i) tokens[static_cast<size_t>(i)] = i;
      std::shuffle(tokens.begin(), tokens.end(), generator);
      tokens.resize(static_cast<size_t>(k));
      std::sort(tokens.begin(), tokens.end());
      chosen.push_back(tokens);
    }
    overlap.add(chosen);
  }
  return overlap;
}

// All lists of n_full layers with 0 in front, the lexicographically smallest first.
void all_lists(int32_t n_layers, int32_t n_full, Layers& list, std::vector<Layers>& lists) {
  if (static_cast<int32_t>(list.size()) == n_full) {
    lists.push_back(list);
    return;
  }
  for (int32_t next = list.back() + 1; next < n_layers; ++next) {
    list.push_back(next);
    all_lists(n_layers, n_full, list, lists);
    list.pop_back();
  }
}

// Each layer asks the nearest full one in front of it.
int64_t worth(const LayerOverlap& overlap, const Layers& layers) {
  int64_t sum = 0;
  for (int32_t t = 0; t < overlap.n_layers(); ++t) {
    const int32_t full = *(std::upper_bound(layers.begin(), layers.end(), t) - 1);
    if (full != t) sum += overlap.at(full, t);
  }
  return sum;
}

TEST(LayerOverlap, CountsWhatTwoLayersChoseInCommon) {
  LayerOverlap overlap(3);
  overlap.add(std::vector<Layers>{{1, 2, 9}, {2, 3, 9}, {4, 5, 6}});
  overlap.add(std::vector<Layers>{{0, 1}, {0, 1}, {1, 7}});
  EXPECT_EQ(overlap.n_chosen(), 5);
  EXPECT_EQ(overlap.at(0, 0), 5);
  EXPECT_EQ(overlap.at(0, 1), 4);
  EXPECT_EQ(overlap.at(1, 0), 4);
  EXPECT_EQ(overlap.at(0, 2), 1);
  EXPECT_EQ(overlap.at(2, 1), 1);
}

TEST(FullLayerChoice, AreTheBestOfAllLists) {
  int32_t n_ties = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const int32_t n_layers = 1 + static_cast<int32_t>(seed) % 9;
    const LayerOverlap overlap = random_overlap(n_layers, seed % 2 == 0 ? 5 : 40, 3, seed);
    for (int32_t n_full = 1; n_full <= n_layers; ++n_full) {
      std::vector<Layers> lists;
      Layers list = {0};
      all_lists(n_layers, n_full, list, lists);
      const Layers* best = &lists.front();
      int32_t n_best = 0;
      for (const Layers& one : lists) {
        const int64_t difference = worth(overlap, one) - worth(overlap, *best);
        n_best = difference > 0 ? 1 : n_best + (difference == 0 ? 1 : 0);
        if (difference > 0) best = &one;
      }
      n_ties += n_best > 1 ? 1 : 0;
      const FullLayers chosen = choose_full_layers(overlap, n_full);
      EXPECT_EQ(chosen.layers, *best) << seed << " " << n_full;
      EXPECT_EQ(chosen.common, worth(overlap, *best)) << seed << " " << n_full;
    }
  }
  EXPECT_GT(n_ties, 20);
}

TEST(FullLayerChoice, OfEqualsTheFirstInOrder) {
  LayerOverlap overlap(6);
  overlap.add(std::vector<Layers>(6, Layers{3, 4}));
  EXPECT_EQ(choose_full_layers(overlap, 1).layers, (Layers{0}));
  EXPECT_EQ(choose_full_layers(overlap, 3).layers, (Layers{0, 1, 2}));
  EXPECT_EQ(choose_full_layers(overlap, 6).layers, (Layers{0, 1, 2, 3, 4, 5}));
}

TEST(FullLayerChoice, TheShareIsOfWhatTheOtherLayersChose) {
  LayerOverlap overlap(4);  // 0 and 1 alike, 2 and 3 alike
  overlap.add(std::vector<Layers>{{1, 2}, {1, 2}, {2, 3}, {2, 3}});
  const FullLayers chosen = choose_full_layers(overlap, 2);
  EXPECT_EQ(chosen.layers, (Layers{0, 2}));
  EXPECT_EQ(chosen.common, 4);
  EXPECT_EQ(chosen.share, 1.0);
  EXPECT_EQ(rate_full_layers(overlap, {0, 1}).common, 2);
  EXPECT_EQ(rate_full_layers(overlap, {0, 1}).share, 0.5);
  EXPECT_EQ(rate_full_layers(overlap, {0}).share, 4.0 / 6);
  EXPECT_EQ(rate_full_layers(overlap, {0, 1, 2, 3}).share, 1.0);
}

}  // namespace
}  // namespace kvasir
