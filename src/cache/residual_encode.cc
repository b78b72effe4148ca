// How the residual tier takes rows: references first, then who is nearest, then differences.
#include <algorithm>
#include <cassert>
#include <random>

#include "cache/reference_search.h"
#include "cache/residual_tier.h"
#include "cache/scratch.h"
#include "kernels/half.h"

namespace kvasir {
namespace {

constexpr int32_t kChunkRows = 256;  // rows that are worked on at once
constexpr int32_t kTileRefs = 256;   // references that are decoded at once
constexpr int32_t kItemRows = 16;    // rows of one item of parallel work

size_t z(int64_t n) { return static_cast<size_t>(n); }

// What of a row one set of references is compared by: all of it, or K and V of one head.
struct Compared {
  int32_t width_k, width_v;
  ptrdiff_t k_at, v_at;  // in a row
  int32_t width() const { return width_k + width_v; }
};

Compared compared_by(const ResidualCodec& codec, int32_t set) {
  const LayerGeometry& g = codec.geometry();
  if (!codec.params().per_head) return {g.width_k(), g.width_v(), 0, g.width_k()};
  return {g.head_dim_k, g.head_dim_v, ptrdiff_t{set} * g.head_dim_k,
          g.width_k() + ptrdiff_t{set} * g.head_dim_v};
}

// Themselves, or each half over the root of its mean squared length.
struct Scales {
  float k = 1, v = 1;
};

// [K | V] of what is compared, scaled. Rows of `from` are `stride` apart.
void scale_rows(const float* from, int32_t n, ptrdiff_t stride, const Compared& of,
                const Scales& by, float* to) {
  for (ptrdiff_t i = 0; i < n; ++i, from += stride) {
    for (int32_t d = 0; d < of.width_k; ++d) *to++ = from[of.k_at + d] * by.k;
    for (int32_t d = 0; d < of.width_v; ++d) *to++ = from[of.v_at + d] * by.v;
  }
}

Scales halves_of(const float* rows, int32_t n, ptrdiff_t stride, const Compared& of) {
  const auto squares = [&](ptrdiff_t at, int32_t width) {
    double sum = 0;
    for (ptrdiff_t i = 0; i < n; ++i) {
      for (ptrdiff_t d = 0; d < width; ++d) {
        const double x = static_cast<double>(rows[i * stride + at + d]);
        sum += x * x;
      }
    }
    return sum;
  };
  const auto scale = [n](double sum) {
    return sum > 0 ? static_cast<float>(std::sqrt(n / sum)) : 1.0F;
  };
  return {scale(squares(of.k_at, of.width_k)), scale(squares(of.v_at, of.width_v))};
}

}  // namespace

bool ResidualTier::reserve(const DemotedRows& demoted) {
  const ResidualParams& params = codec_.params();
  const bool stands = params.choice != ReferenceChoice::kMean;
  const int32_t of_block = stands ? (demoted.n + params.stride - 1) / params.stride
                                  : (demoted.n + kChunkRows - 1) / kChunkRows;
  const int32_t n_refs = of_block + (n_rows_ == 0 ? static_cast<int32_t>(demoted.sinks.size()) : 0);
  if (!refs_.reserve(n_refs)) return false;
  const int32_t n = n_differences_ + demoted.n - (stands ? of_block : 0);
  const size_t n_pages = z((n + page_rows_ - 1) / page_rows_);
  while (pages_.size() < n_pages) {
    std::byte* page = arena_->allocate(page_bytes_);
    if (page == nullptr) return false;
    pages_.push_back(page);
  }
  const auto room = [](auto& values, size_t n) {
    if (n > values.capacity()) {
      values.reserve(z(grown(static_cast<int64_t>(values.capacity()), static_cast<int64_t>(n))));
    }
  };
  room(groups_, z((n_rows_ + demoted.n) / kGroup + 1));
  room(own_, own_.size() + z(n_refs));
  if (refs_.size() + n_refs >= 0xFFFF) widen();
  return true;
}

void ResidualTier::load_rows(const DemotedRows& demoted, const Chunk& chunk, ParallelFor& parallel,
                             EncodeScratch& scratch) const {
  make_room(scratch.x, z(chunk.n) * z(codec_.width()));
  parallel.run((chunk.n + kItemRows - 1) / kItemRows, [&](int64_t item, int32_t) {
    const auto first = static_cast<int32_t>(item) * kItemRows;
    for (int32_t r = first; r < std::min(first + kItemRows, chunk.n); ++r) {
      load_unrotated(demoted.rows, demoted.first + chunk.first + r,
                     demoted.positions[z(chunk.first + r)], rope_,
                     scratch.x.data() + ptrdiff_t{r} * codec_.width());
    }
  });
}

void ResidualTier::add_sinks(const DemotedRows& demoted, EncodeScratch& scratch) {
  make_room(scratch.x, z(codec_.width()));
  for (size_t i = 0; i < demoted.sinks.size(); ++i) {
    load_unrotated(demoted.rows, static_cast<int32_t>(i), demoted.sinks[i], rope_,
                   scratch.x.data());
    codec_.encode_reference(scratch.x.data(), refs_.at(refs_.add()));
  }
}

// Of the rows of a chunk, in order; with kMean their mean in the place of all.
void ResidualTier::add_references(const Chunk& chunk, EncodeScratch& scratch) {
  const int32_t width = codec_.width();
  if (codec_.params().choice == ReferenceChoice::kMean) {
    std::vector<double> sums(z(width));
    for (ptrdiff_t i = 0; i < ptrdiff_t{chunk.n} * width; ++i) {
      sums[z(i % width)] += static_cast<double>(scratch.x[z(i)]);
    }
    std::vector<float> mean(z(width));
    std::transform(sums.begin(), sums.end(), mean.begin(),
                   [&](double sum) { return static_cast<float>(sum / chunk.n); });
    const int32_t index = refs_.add();
    codec_.encode_reference(mean.data(), refs_.at(index));
    scratch.chosen.assign(1, index);
    return;
  }
  for (int32_t r = 0; r < chunk.n; ++r) {
    if ((chunk.first + r) % codec_.params().stride != 0) continue;
    const int32_t index = refs_.add();
    codec_.encode_reference(scratch.x.data() + ptrdiff_t{r} * width, refs_.at(index));
    scratch.candidates.push_back(index);
  }
}

// Candidates at or before a row of the chunk: all from before the block, and those of the block up
// to the row. The row itself counts where it is one.
int32_t ResidualTier::n_visible(const Chunk& chunk, int32_t row) const {
  return chunk.n_old + (chunk.first + row) / codec_.params().stride + 1;
}

// [K | V] of what a set is compared by, of one reference.
void ResidualTier::decode_set(int32_t reference, int32_t set, float* x) const {
  const std::byte* from = refs_.at(reference);
  if (!codec_.params().per_head) {
    codec_.decode_reference(from, x);
    return;
  }
  codec_.decode_reference(from, set, true, x);
  codec_.decode_reference(from, set, false, x + codec_.geometry().head_dim_k);
}

void ResidualTier::find_nearest(const Chunk& chunk, int32_t set, ParallelFor& parallel,
                                EncodeScratch& scratch) {
  const ResidualParams& params = codec_.params();
  const Compared of = compared_by(codec_, set);
  const bool halves = params.metric == ReferenceMetric::kHalves;
  const Scales scales =
      halves ? halves_of(scratch.x.data(), chunk.n, codec_.width(), of) : Scales{};
  const bool as_they_are = !halves && !params.per_head;
  if (!as_they_are) {
    make_room(scratch.scaled, z(chunk.n) * z(of.width()));
    scale_rows(scratch.x.data(), chunk.n, codec_.width(), of, scales, scratch.scaled.data());
  }
  make_room(scratch.best, z(chunk.n) * z(params.neighbours));
  make_room(scratch.best_index, z(chunk.n) * z(params.neighbours));
  const NearestSet nearest{chunk.n, params.neighbours, scratch.best.data(),
                           scratch.best_index.data()};
  nearest.reset();
  make_room(scratch.visible, z(chunk.n));
  for (int32_t r = 0; r < chunk.n; ++r) scratch.visible[z(r)] = n_visible(chunk, r);
  const auto n_refs = static_cast<int32_t>(scratch.candidates.size());
  make_room(scratch.tile, z(std::min(n_refs, kTileRefs)) * z(of.width()));
  make_room(scratch.norms, z(kTileRefs));
  const Compared in_tile{of.width_k, of.width_v, 0, of.width_k};
  for (int32_t first = 0; first < n_refs; first += kTileRefs) {
    const int32_t n = std::min(kTileRefs, n_refs - first);
    parallel.run((n + kItemRows - 1) / kItemRows, [&](int64_t item, int32_t) {
      const auto begin = static_cast<int32_t>(item) * kItemRows;
      const int32_t end = std::min(begin + kItemRows, n);
      for (int32_t i = begin; i < end; ++i) {
        float* x = scratch.tile.data() + ptrdiff_t{i} * of.width();
        decode_set(scratch.candidates[z(first + i)], set, x);
        if (halves) scale_rows(x, 1, of.width(), in_tile, scales, x);
        squared_lengths(x, 1, of.width(), scratch.norms.data() + i);
      }
    });
    search_tile({as_they_are ? scratch.x.data() : scratch.scaled.data(), scratch.tile.data(),
                 scratch.norms.data(), n, of.width(), first, scratch.visible},
                *kernels_, parallel, nearest);
  }
  for (int32_t r = 0; r < chunk.n; ++r) {
    for (int32_t i = 0; i < params.neighbours; ++i) {
      const int32_t candidate = scratch.best_index[z(r) * z(params.neighbours) + z(i)];
      scratch.chosen[z(r) * z(codec_.n_fathers()) + z(set * params.neighbours + i)] =
          candidate < 0 ? -1 : scratch.candidates[z(candidate)];
    }
  }
}

// The references of each row of a chunk go to scratch.chosen, [n, n_fathers]; -1: fewer.
void ResidualTier::choose(const Chunk& chunk, ParallelFor& parallel, EncodeScratch& scratch) {
  const int32_t k = codec_.params().neighbours;
  const int32_t n_fathers = codec_.n_fathers();
  const ReferenceChoice choice = codec_.params().choice;
  const int32_t of_block = choice == ReferenceChoice::kMean ? scratch.chosen[0] : -1;
  scratch.chosen.assign(z(chunk.n) * z(n_fathers), -1);
  if (choice == ReferenceChoice::kNearest) {
    for (int32_t set = 0; set < codec_.n_sets(); ++set) find_nearest(chunk, set, parallel, scratch);
    return;
  }
  for (int32_t r = 0; r < chunk.n; ++r) {
    int32_t* chosen = scratch.chosen.data() + ptrdiff_t{r} * n_fathers;
    const auto n = static_cast<uint32_t>(n_visible(chunk, r));
    std::minstd_rand generator(static_cast<uint32_t>(n_rows_ + chunk.first + r + 1));
    for (int32_t i = 0; i < n_fathers; ++i) {
      if (choice == ReferenceChoice::kRandom) {
        chosen[i] = scratch.candidates[generator() % n];
      } else if (i % k == 0) {
        chosen[i] = choice == ReferenceChoice::kMean ? of_block : scratch.candidates[z(n - 1)];
      }
    }
  }
}

// The mean of a set's references, where the set is read: all of a row, or K and V of its head.
void ResidualTier::mean_of(const int32_t* chosen, int32_t set, std::span<float> mean,
                           std::span<float> reference) const {
  const Compared of = compared_by(codec_, set);
  const auto k = mean.subspan(z(of.k_at), z(of.width_k));
  const auto v = mean.subspan(z(of.v_at), z(of.width_v));
  std::fill(k.begin(), k.end(), 0.0F);
  std::fill(v.begin(), v.end(), 0.0F);
  int32_t n = 0;
  for (int32_t i = 0; i < codec_.params().neighbours; ++i) {
    if (chosen[i] < 0) continue;
    decode_set(chosen[i], set, reference.data());
    std::transform(k.begin(), k.end(), reference.begin(), k.begin(), std::plus<>());
    std::transform(v.begin(), v.end(), reference.begin() + of.width_k, v.begin(), std::plus<>());
    ++n;
  }
  for (float& m : k) m /= static_cast<float>(n);
  for (float& m : v) m /= static_cast<float>(n);
}

void ResidualTier::encode_rows(const Chunk& chunk, ParallelFor& parallel, EncodeScratch& scratch) {
  const ResidualParams& params = codec_.params();
  const int32_t width = codec_.width();
  const int32_t n_fathers = codec_.n_fathers();
  const bool stands = params.choice != ReferenceChoice::kMean;  // references are tokens
  const int32_t first_row = n_rows_;
  size_t next = z(chunk.n_old) + z((chunk.first + params.stride - 1) / params.stride);
  for (int32_t r = 0; r < chunk.n; ++r) {
    const bool is_reference = stands && (chunk.first + r) % params.stride == 0;
    push_place(is_reference, is_reference ? scratch.candidates[next] : -1);
    if (is_reference) ++next;
  }
  make_room(scratch.means, z(parallel.n_workers()) * 2 * z(width));
  parallel.run((chunk.n + kItemRows - 1) / kItemRows, [&](int64_t item, int32_t worker) {
    const auto first = static_cast<int32_t>(item) * kItemRows;
    const auto room = std::span(scratch.means).subspan(z(worker) * 2 * z(width), 2 * z(width));
    const auto mean = room.first(z(width));
    const auto reference = room.last(z(width));
    for (int32_t r = first; r < std::min(first + kItemRows, chunk.n); ++r) {
      const Place at = place(first_row + r);
      if (at.is_reference) continue;
      const int32_t* chosen = scratch.chosen.data() + ptrdiff_t{r} * n_fathers;
      for (int32_t i = 0; i < n_fathers; ++i) set_father(at.index, i, chosen[i]);
      for (int32_t set = 0; set < codec_.n_sets(); ++set) {
        mean_of(chosen + ptrdiff_t{set} * params.neighbours, set, mean, reference);
      }
      codec_.encode(scratch.x.data() + ptrdiff_t{r} * width, mean.data(), difference(at.index));
    }
  });
  for (int32_t r = 0; r < chunk.n; ++r) {
    if (place(first_row + r).is_reference) continue;
    for (int32_t i = 0; i < n_fathers; ++i) {
      const int32_t index = scratch.chosen[z(r) * z(n_fathers) + z(i)];
      if (index >= 0) refs_.use(index);
    }
  }
  // No token stands behind the mean of a block.
  if (!stands) refs_.disown(scratch.chosen[0]);
}

bool ResidualTier::append(const DemotedRows& demoted, ParallelFor& parallel,
                          EncodeScratch& scratch) {
  assert(demoted.n % kBlockRows == 0 && demoted.rows.geometry() == codec_.geometry());
  assert(static_cast<int32_t>(demoted.positions.size()) == demoted.n);
  if (!reserve(demoted)) return false;
  if (rope_ != nullptr) {
    rope_->cover(
        std::max(demoted.positions.back(), demoted.sinks.empty() ? 0 : demoted.sinks.back()));
  }
  if (n_rows_ == 0) add_sinks(demoted, scratch);
  scratch.candidates.clear();
  for (int32_t i = 0; i < refs_.size(); ++i) {
    if (refs_.owned(i)) scratch.candidates.push_back(i);
  }
  const auto n_old = static_cast<int32_t>(scratch.candidates.size());
  for (int32_t first = 0; first < demoted.n; first += kChunkRows) {
    const Chunk chunk{first, std::min(kChunkRows, demoted.n - first), n_old};
    load_rows(demoted, chunk, parallel, scratch);
    add_references(chunk, scratch);
    choose(chunk, parallel, scratch);
    encode_rows(chunk, parallel, scratch);
  }
  return true;
}

int64_t ResidualTier::scratch_bytes(const LayerGeometry& geometry, const ResidualParams& params,
                                    int64_t n_rows, int32_t n_workers) {
  constexpr int64_t kFloat = sizeof(float);
  const int64_t width = geometry.width_k() + geometry.width_v();
  const int64_t chunk = kChunkRows;
  int64_t floats = chunk * width + int64_t{2} * n_workers * width + 3 * width;  // x, means, a mean
  const int64_t n_sets = params.per_head ? geometry.n_kv_heads : 1;
  floats += chunk * params.neighbours * n_sets;  // chosen
  if (params.choice == ReferenceChoice::kNearest) {
    floats += std::min<int64_t>(kTileRefs, n_rows) * width + kTileRefs;  // tile, norms
    floats += chunk * (2 * params.neighbours + 1);                       // best, who is visible
    if (params.metric == ReferenceMetric::kHalves || params.per_head) floats += chunk * width;
  }
  return (floats + floats / 8 + 2 * n_rows) * kFloat;  // candidates, which grow to twice the size
}

}  // namespace kvasir
