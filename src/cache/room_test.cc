// Under --kv-budget-mb a cache never holds more than its cap, whatever comes in whatever order.
#include "cache/room.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <numeric>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "cache/test_rows.h"

namespace kvasir {
namespace {

constexpr int32_t kStreams = 8;
constexpr int32_t kCells = 4096;
constexpr int32_t kHeads = 6;
constexpr int32_t kMostTokens = 1500;
constexpr LayerGeometry kGeometry{2, 64, 64};

CacheOptions options_of(const std::string& policy, const std::string& format, int32_t mib) {
  CacheOptions options;
  options.policy = policy;
  options.format = format;
  options.budget_mb = mib;
  return options;
}

RopeSpec rope_of(int32_t head_dim) {
  RopeSpec spec;
  for (int32_t i = 0; i < head_dim / 2; ++i) spec.frequencies.push_back(1.0 / (1 + i));
  return spec;
}

// Some caches of one context, driven as the device drives them.
class Context {
 public:
  Context(const CacheOptions& options, int32_t n_layers, ParallelFor& parallel, bool dense = false)
      : options_(options), n_layers_(n_layers), parallel_(parallel), n_seen_(kStreams) {
    add(n_layers, kCells, false);
    if (dense) add(1, 256, true);
    rows_ = testing::Sequence::random(kGeometry, kMostTokens, 5);
    queries_.resize(size_t{512} * kHeads * 64);
    for (size_t i = 0; i < queries_.size(); ++i) {
      queries_[i] = static_cast<float>(i * 7919 % 1000) / 500.0F - 1;
    }
  }

  Cache& cache() { return *owned_.front(); }
  int32_t n_seen(int32_t stream) const { return n_seen_[size_t(stream)]; }
  int64_t total() const {
    int64_t sum = 0;
    for (const auto& cache : owned_) sum += cache->bytes().total();
    return sum;
  }
  void set_attends(bool attends) { attends_ = attends; }
  int64_t most() const { return most_; }
  int64_t most_demoted() const { return most_demoted_; }
  int64_t rows_read() const { return owned_.front()->rows_read(); }
  int64_t rows_live() const { return owned_.front()->rows_live(); }
  std::vector<Cache*> caches() const { return caches_; }

  /// The server forgot what a stream has past `n` tokens.
  void truncate(int32_t stream, int32_t n) { n_seen_[size_t(stream)] = n; }

  /// A ubatch of n tokens for each stream in [first, last), then the end of its step.
  Result<void> ubatch(int32_t first, int32_t last, int32_t n, bool decoded) {
    std::vector<int32_t> n_new(kStreams, 0);
    for (int32_t s = first; s < last; ++s) {
      n_new[size_t(s)] = n;
      for (Cache* cache : caches_) cache->drop_from(s, n_seen(s));
    }
    Result<void> room = make_room(caches_, n_new, n * (last - first), parallel_);
    if (!room) return room;
    note_bound(n_new);
    check("making room");
    for (size_t c = 0; c < caches_.size(); ++c) {
      ++epoch_;
      for (int32_t l = 0; l < (c == 0 ? n_layers_ : 1); ++l) {
        for (int32_t s = first; s < last; ++s) append(*caches_[c], l, s, n);
        check("an append");
        if (attends_) attend(*caches_[c], l, first, last, n);
        check("an attention");
      }
    }
    Confidence confidence;
    confidence.c = (epoch_ % 3) == 0 ? 0.9 : 0.3;
    confidence.valid = true;
    for (int32_t s = first; s < last; ++s) {
      n_seen_[size_t(s)] += n;
      for (Cache* cache : caches_) {
        StepRecord record;
        cache->end_step(s, {decoded, decoded ? &confidence : nullptr}, parallel_, record);
        check("a step");
        peak_ = std::max(peak_, cache->peak_bytes());
      }
    }
    return {};
  }

 private:
  void add(int32_t n_layers, int32_t n_cells, bool dense) {
    CacheConfig config{kStreams, n_cells, dense, options_};
    auto made = Cache::create(config, best_kernels());
    ASSERT_TRUE(made) << made.error();
    for (int32_t l = 0; l < n_layers; ++l) {
      ASSERT_TRUE(made.value()->set_geometry(l, kGeometry));
      made.value()->set_query_heads(l, kHeads);
      made.value()->set_rope(l, rope_of(kGeometry.head_dim_k));
    }
    owned_.push_back(std::move(made.value()));
    caches_.push_back(owned_.back().get());
  }

  // What the ubatch may come to hold: within the cap, or what was cut was counted too low.
  void note_bound(std::span<const int32_t> n_new) {
    std::vector<CacheLoad> loads;
    for (const Cache* cache : caches_) loads.push_back(cache->load(n_new, parallel_.n_workers()));
    const CapPlan plan(loads, n_new);
    bound_ = plan.bound_as_is();
    ASSERT_LE(bound_, options_.cap_bytes()) << "ubatch " << epoch_;
    ASSERT_GE(plan.held(), total()) << "ubatch " << epoch_;
  }

  void check(const char* after) {
    most_ = std::max(most_, total());
    most_demoted_ = std::max(most_demoted_, cache().bytes().demoted);
    ASSERT_LE(total(), bound_) << after << ", ubatch " << epoch_;
    ASSERT_LE(total(), options_.cap_bytes()) << after << ", ubatch " << epoch_;
  }

  void append(Cache& cache, int32_t layer, int32_t stream, int32_t n) {
    std::vector<int32_t> positions(static_cast<size_t>(n));
    std::iota(positions.begin(), positions.end(), n_seen(stream));
    std::vector<int32_t> cells = positions;
    for (int32_t& cell : cells) cell %= cache.config().n_cells;
    const TokenSpan tokens{cells, positions};
    const int32_t from = n_seen(stream) % (kMostTokens - n);
    ASSERT_TRUE(cache.append_k(layer, stream, tokens, {rows_.k_row(from), 128, n}));
    ASSERT_TRUE(cache.append_v(layer, stream, tokens, {rows_.v_row(from), 128, n}));
  }

  void attend(Cache& cache, int32_t layer, int32_t first, int32_t last, int32_t n) {
    const bool dense = cache.config().dense;
    int32_t n_cells = 256;
    for (int32_t s = first; !dense && s < last; ++s) {
      n_cells = std::max(n_cells, (n_seen(s) + n + 255) / 256 * 256);
    }
    const auto per_stream = ptrdiff_t{n} * n_cells;
    std::vector<uint16_t> mask(static_cast<size_t>(per_stream * (last - first)), kF16MinusInf);
    std::vector<int32_t> positions;
    for (int32_t s = first; s < last; ++s) {
      for (int32_t t = 0; t < n; ++t) {
        const int32_t visible = dense ? n_cells : n_seen(s) + t + 1;
        std::fill_n(mask.begin() + (s - first) * per_stream + ptrdiff_t{t} * n_cells, visible,
                    uint16_t{0});
        positions.push_back(n_seen(s) + t);
      }
    }
    std::vector<float> out(static_cast<size_t>(n * (last - first)) * kHeads * 64);
    AttendArgs args;
    args.layer = layer;
    args.first_stream = first;
    args.n_streams = last - first;
    args.n_queries = n;
    args.n_heads = kHeads;
    args.q = queries_.data();
    args.q_query = args.out_query = ptrdiff_t{kHeads} * 64;
    args.q_head = args.out_head = 64;
    args.out_stream = ptrdiff_t{n} * kHeads * 64;
    args.mask = mask.data();
    args.mask_query = n_cells;
    args.mask_stream = per_stream;
    args.n_cells = n_cells;
    args.out = out.data();
    args.positions = positions;
    args.epoch = epoch_;
    const Result<void> done = cache.attend(args, parallel_);
    ASSERT_TRUE(done) << done.error();
  }

  CacheOptions options_;
  int32_t n_layers_;
  ParallelFor& parallel_;
  std::vector<int32_t> n_seen_;
  std::vector<std::unique_ptr<Cache>> owned_;
  std::vector<Cache*> caches_;
  testing::Sequence rows_;
  std::vector<float> queries_;
  bool attends_ = true;
  int64_t epoch_ = 0;
  int64_t most_ = 0, most_demoted_ = 0, peak_ = 0, bound_ = 0;
};

// A prompt in chunks, some decoded tokens, all at once or one stream; now and then a stream begins
// anew or goes back. The first n_busy streams get the prompts.
void drive(Context& context, int32_t n_ubatches, uint32_t seed, int32_t n_busy = kStreams) {
  std::mt19937 random(seed);
  const auto draw = [&](int32_t end) { return static_cast<int32_t>(random() % uint32_t(end)); };
  for (int32_t u = 0; u < n_ubatches && !::testing::Test::HasFatalFailure(); ++u) {
    const int32_t stream = draw(n_busy);
    const int32_t kind = draw(10);
    int32_t first = stream;
    int32_t last = stream + 1;
    int32_t n = 1;
    if (kind < 4) {
      n = 1 + draw(128);
    } else if (kind < 7) {
      first = 0;
      last = kStreams;
      n = kind == 4 ? 1 + draw(16) : 1;
    } else if (kind == 7) {
      context.truncate(stream, draw(context.n_seen(stream) + 1));
    }
    for (int32_t s = first; s < last; ++s) {
      if (context.n_seen(s) + n > kCells - 1) context.truncate(s, 0);
    }
    const auto done = context.ubatch(first, last, n, n == 1 || draw(3) == 0);
    ASSERT_TRUE(done) << done.error();
  }
}

// One MiB more than what is asked for at least: most of it is pages of a few tokens each.
int32_t tight_cap(const std::string& policy, const std::string& format, int32_t n_layers,
                  bool dense) {
  SerialFor serial;
  const Context context(options_of(policy, format, 1), n_layers, serial, dense);
  return static_cast<int32_t>(smallest_cap_mib(context.caches(), 128, 1)) + 1;
}

struct Setting {
  std::string policy, format;
};

class NeverAbove : public ::testing::TestWithParam<Setting> {};

TEST_P(NeverAbove, WhateverComes) {
  SerialFor parallel;
  const int32_t cap = tight_cap(GetParam().policy, GetParam().format, 4, false);
  CacheOptions options = options_of(GetParam().policy, GetParam().format, cap);
  // Where the cap is the budget too, steps cut most; with a wide budget everything is up to it.
  if (GetParam().format.starts_with("f16") || GetParam().format.starts_with("k5")) {
    options.params.budget = kCells;
  }
  Context context(options, 4, parallel);
  drive(context, 240, 17);
  // The cap is used, not just kept.
  EXPECT_GT(context.most(), int64_t{cap} << 19);
  int64_t evicted = 0;
  for (int32_t s = 0; s < kStreams; ++s) evicted += context.cache().evicted_rows(s);
  EXPECT_GT(evicted, 0);
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const auto* policy : {"window", "conf", "h2o", "snapkv"}) {
    for (const auto* format : {"f16", "int8", "k5v4", "int8-channel"}) {
      all.push_back({policy, format});
    }
  }
  return all;
}

std::string name_of(const ::testing::TestParamInfo<Setting>& info) {
  std::string name = info.param.policy + "_" + info.param.format;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Room, NeverAbove, ::testing::ValuesIn(settings()), name_of);

// Rows that share what outlives them, and steps that read a part: what is kept beside the rows
// depends on what came before.
struct Shared {
  std::string policy, flags;
};

void PrintTo(const Shared& setting, std::ostream* out) {
  *out << setting.policy << " " << setting.flags;
}

class NeverAboveShared : public ::testing::TestWithParam<Shared> {};

CacheOptions shared_options(const Shared& setting, int32_t mib) {
  CacheOptions options;
  std::vector<std::string> args =
      split_flags("--kv-policy " + setting.policy + " " + setting.flags).value();
  EXPECT_TRUE(take_flags(args, options));
  options.budget_mb = mib;
  EXPECT_TRUE(validate(options)) << validate(options).error();
  return options;
}

TEST_P(NeverAboveShared, WhateverComes) {
  SerialFor parallel;
  const Context smallest(shared_options(GetParam(), 1), 4, parallel);
  const auto cap = static_cast<int32_t>(smallest_cap_mib(smallest.caches(), 128, 1)) + 1;
  CacheOptions options = shared_options(GetParam(), cap);
  options.params.budget = kCells;  // everything is up to the cap
  Context context(options, 4, parallel);
  ASSERT_TRUE(check_cap(context.caches(), 128, 1));
  drive(context, 220, 18, 4);
  // The cap is used, not just kept.
  EXPECT_GT(context.most(), int64_t{cap} << 19);
  int64_t evicted = 0;
  for (int32_t s = 0; s < kStreams; ++s) evicted += context.cache().evicted_rows(s);
  EXPECT_GT(evicted, 0);
  EXPECT_EQ(context.most_demoted() > 0, options.demotes());
  if (options.selects()) {
    EXPECT_LT(context.rows_read(), context.rows_live());
  }
}

// The cap is the budget, of which steps cut most.
TEST_P(NeverAboveShared, WhereItIsTheBudget) {
  SerialFor parallel;
  const Context smallest(shared_options(GetParam(), 1), 4, parallel);
  const auto cap = static_cast<int32_t>(smallest_cap_mib(smallest.caches(), 128, 1)) + 1;
  Context context(shared_options(GetParam(), cap), 4, parallel);
  drive(context, 60, 17, 1);
}

std::vector<Shared> shared_settings() {
  std::vector<Shared> all;
  for (const auto* policy : {"window", "conf", "random"}) {
    for (const auto* flags :
         {"--kv-format residual", "--kv-format residual,first=1:int8", "--kv-format latent"}) {
      all.push_back({policy, flags});
    }
  }
  // Many references, and many of each token; tokens that leave before they are old; no references
  // among the tokens; protected tokens that are demoted.
  all.push_back({"h2o", "--kv-format residual --kv-residual s=3,k=8,bits=2,refs=f16"});
  all.push_back({"snapkv", "--kv-format residual --kv-residual s=1"});
  all.push_back({"random", "--kv-format residual --kv-residual s=128,k=16,metric=halves"});
  all.push_back({"random", "--kv-format residual --kv-residual s=9,k=3,per=head"});
  all.push_back({"random", "--kv-format residual --kv-residual choose=random,s=4,k=8"});
  all.push_back({"random", "--kv-format residual --kv-residual choose=mean"});
  all.push_back({"random", "--kv-format residual --kv-protect 96 --kv-recent 16"});
  all.push_back({"window", "--kv-format latent --kv-protect 96 --kv-recent 16"});
  for (const auto* format : {"f16", "int8", "residual", "latent", "residual,first=1:int8"}) {
    const std::string flags = std::string("--kv-format ") + format + " --kv-recent 32 --kv-select ";
    all.push_back({"random", flags + "omnikv"});
    all.push_back({"window", flags + "quest"});
    all.push_back({"random", flags + "sketch"});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Room, NeverAboveShared, ::testing::ValuesIn(shared_settings()),
                         [](const ::testing::TestParamInfo<Shared>& info) {
                           std::string name = info.param.policy + "_" + info.param.flags;
                           std::erase_if(name, [](char c) { return c == '-'; });
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) {
                                 return std::isalnum(static_cast<unsigned char>(c)) == 0;
                               },
                               '_');
                           return name;
                         });

// Bounds are from above, but not by much.
TEST(Room, MostOfTheCapIsUsed) {
  SerialFor parallel;
  constexpr int32_t kCap = 20;
  for (const auto* flags :
       {"--kv-format residual", "--kv-format residual,first=1:int8 --kv-select omnikv",
        "--kv-format residual --kv-select quest", "--kv-format latent", "--kv-select omnikv",
        "--kv-select quest --kv-format k5v4", "--kv-select sketch",
        "--kv-select sketch16 --kv-format int8"}) {
    Context context(shared_options({"window", flags}, kCap), 4, parallel);
    context.set_attends(false);
    int32_t n = 0;
    const auto evicted = [&] { return context.cache().evicted_rows(kStreams - 1) > 0; };
    for (; !evicted() && n < kCells - 128; n += 64) {
      for (int32_t s = 0; s < kStreams; ++s) ASSERT_TRUE(context.ubatch(s, s + 1, 64, true));
    }
    EXPECT_TRUE(evicted()) << flags;
    EXPECT_GT(context.most(), int64_t{kCap} * 3 / 4 << 20) << flags;
    context.set_attends(true);
    ASSERT_TRUE(context.ubatch(0, kStreams, 1, true));
  }
}

// Protected tokens that are demoted may need more references than they brought.
TEST(Room, TheSmallestCapCountsReferencesOfWhatLeft) {
  SerialFor parallel;
  const auto least = [&](const char* residual) {
    const Shared setting{"random", std::string("--kv-format residual --kv-protect 1040 "
                                               "--kv-recent 16 --kv-residual ") +
                                       residual};
    const Context context(shared_options(setting, 1), 4, parallel);
    return smallest_cap_mib(context.caches(), 128, 1);
  };
  // 8 streams, 4 layers and 1024 rows, of which all but 8 are differences, of 272 bytes a father.
  EXPECT_GT(least("s=128,k=16"), 8 * 4 * 1024 * 15 * 272 >> 20);
  EXPECT_LT(least("s=128,k=1"), 40);
}

// A layer that observes keeps the scores of all query heads of all streams for a moment.
TEST(Room, ScoresOfLayersThatObserveAreCounted) {
  SerialFor parallel;
  const std::vector<int32_t> n_new(kStreams, 1);
  const auto grows = [&](const char* full_layers) {
    const Shared setting{"window",
                         std::string("--kv-select omnikv --kv-full-layers ") + full_layers};
    Context context(shared_options(setting, 1), 4, parallel);
    const CacheLoad load = context.cache().load(n_new, 1);
    return load.workspace(20'000) - load.workspace(10'000);
  };
  EXPECT_GE(grows("0,1,2") - grows("0,1,2,3"), int64_t{10'000} * kStreams * kHeads * 4);
}

TEST(Room, BesideASlidingWindow) {
  SerialFor serial;
  Context context(options_of("conf", "f16", tight_cap("conf", "f16", 4, true)), 4, serial, true);
  drive(context, 150, 3);
}

TEST(Room, WithPositionsInTheCache) {
  SerialFor serial;
  CacheOptions options = options_of("streaming", "int8", tight_cap("streaming", "int8", 2, false));
  Context context(options, 2, serial);
  drive(context, 60, 4);
}

TEST(Room, StreamsShareEquallyAndTheSmallStayWhole) {
  SerialFor serial;
  Context context(options_of("window", "f16", 8), 4, serial);
  for (int32_t s = 0; s < kStreams; ++s) {
    const int32_t chunks = s < 2 ? 1 : 3 * s;
    for (int32_t c = 0; c < chunks; ++c) ASSERT_TRUE(context.ubatch(s, s + 1, 64, false));
  }
  EXPECT_EQ(context.cache().live_tokens(0), 64);
  EXPECT_EQ(context.cache().live_tokens(1), 64);
  // The stream that grew last also has what pages leave of equal shares.
  const double level = context.cache().live_tokens(kStreams - 2);
  EXPECT_GT(level, 256);
  EXPECT_LT(level, context.n_seen(kStreams - 2));
  for (int32_t s = 2; s < kStreams - 1; ++s) {
    EXPECT_EQ(context.cache().live_tokens(s), std::min<double>(context.n_seen(s), level)) << s;
  }
  const double last = context.cache().live_tokens(kStreams - 1);
  EXPECT_GE(last, level);
  EXPECT_LE(last, level + kStreams * 64);
}

TEST(Room, TheCapAloneIsABudget) {
  SerialFor serial;
  Context context(options_of("window", "f16", 8), 4, serial);
  for (int32_t c = 0; c < 40; ++c) ASSERT_TRUE(context.ubatch(0, 1, 64, false));
  ASSERT_TRUE(context.ubatch(0, 1, 1, true));
  const double alone = context.cache().live_tokens(0);
  EXPECT_GT(alone, 1000);  // 2 KiB a token
  CacheOptions smaller = options_of("window", "f16", 8);
  smaller.params.budget = 200;
  Context budgeted(smaller, 4, serial);
  for (int32_t c = 0; c < 40; ++c) ASSERT_TRUE(budgeted.ubatch(0, 1, 64, false));
  ASSERT_TRUE(budgeted.ubatch(0, 1, 1, true));
  EXPECT_EQ(budgeted.cache().live_tokens(0), 200);
}

TEST(Room, SinksAndTheNewestStay) {
  SerialFor serial;
  const CacheOptions options = options_of("conf", "f16", tight_cap("conf", "f16", 4, false));
  Context context(options, 4, serial);
  for (int32_t c = 0; c < 20; ++c) ASSERT_TRUE(context.ubatch(0, 8, 8, false));
  for (int32_t c = 0; c < 30; ++c) ASSERT_TRUE(context.ubatch(3, 4, 64, false));
  for (int32_t l = 0; l < 4; ++l) {
    const auto live = context.cache().live_positions(3, l);
    for (int32_t i = 0; i < 4; ++i) EXPECT_EQ(live[size_t(i)], i);
    for (size_t i = 1; i <= 32; ++i) EXPECT_EQ(live[live.size() - i], context.n_seen(3) - int(i));
  }
}

TEST(Room, TooSmallACapIsNamedWithTheSmallest) {
  SerialFor serial;
  Context context(options_of("conf", "f16", 1), 16, serial);
  const int64_t least = smallest_cap_mib(context.caches(), 256, 1);
  const auto refused = check_cap(context.caches(), 256, 1);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find("--kv-budget-mb 1: "), std::string::npos) << refused.error();
  EXPECT_NE(refused.error().find("give --kv-budget-mb " + std::to_string(least)),
            std::string::npos);
  ASSERT_FALSE(context.ubatch(0, 8, 32, false));

  Context enough(options_of("conf", "f16", static_cast<int32_t>(least)), 16, serial);
  ASSERT_TRUE(check_cap(enough.caches(), 256, 1));
  for (int32_t c = 0; c < 6; ++c) {
    for (int32_t s = 0; s < kStreams; ++s) ASSERT_TRUE(enough.ubatch(s, s + 1, 256, false));
    ASSERT_TRUE(enough.ubatch(0, 8, 32, c % 2 == 0));
  }
  Context less(options_of("conf", "f16", static_cast<int32_t>(least) - 1), 16, serial);
  EXPECT_FALSE(check_cap(less.caches(), 256, 1));
}

}  // namespace
}  // namespace kvasir
