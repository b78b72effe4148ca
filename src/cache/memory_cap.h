// What a cap on bytes leaves for tokens: arithmetic alone, without a cache.
//
// A cache describes each layer of each stream by what it costs (LayerShape) and by what it holds
// (LayerLoad). From these follow how many bytes are held, how many there may be at most once tokens
// have arrived and their step has ended, and to how many tokens per layer streams have to be cut so
// that all of it fits. Bounds are from above: page tables, spare pages, vectors that grow, a tier
// that takes rows before another gives them up.
// Shares are equal: no stream is cut below the level, and what a stream does not use of it raises
// the level of the others (water-filling). Bytes throughout; pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cache/reference_cap.h"

namespace kvasir {

/// Elements that a vector gets which must hold `need` and holds `capacity`.
constexpr int64_t grown(int64_t capacity, int64_t need) {
  return need <= capacity ? capacity : need + need / 8 + 64;
}

/// The same of what blocks of rows share.
constexpr int64_t grown_blocks(int64_t capacity, int64_t need) {
  return need <= capacity ? capacity : need + need / 8 + 2;
}

/// What blocks of rows share, on one side (K or V).
struct BlockShape {
  int32_t rows = 1;   ///< of a block
  int64_t bytes = 0;  ///< of a block, with what is known of it; 0: blocks share nothing
};

/// What one layer of any stream costs.
struct LayerShape {
  int64_t object_bytes = 0;     ///< whatever it holds
  int64_t f16_page = 0;         ///< bytes that a page of kPageSlots rows occupies
  int64_t cold_page = 0;        ///< bytes of a page of demoted rows
  int32_t cold_page_slots = 0;  ///< 0: nothing is demoted
  int32_t unit = 1;             ///< rows that are demoted at once
  int32_t sinks = 0;            ///< first tokens: never evicted, never demoted
  int32_t protect = 0;          ///< newest tokens that are never evicted
  int32_t recent = 0;           ///< newest tokens that are not demoted
  BlockShape k_blocks, v_blocks;
  ReferenceShape references;
  int64_t cold_fixed = 0;   ///< bytes of the demoted rows together, once there are any
  int64_t chunk_bytes = 0;  ///< of an index of keys; 0: no selection makes any
  int32_t chunk_slots = 1;  ///< tokens that it holds
  int64_t slot_bytes = 0;   ///< metadata of a token
  int64_t query_bytes = 0;  ///< of an observed query
  int32_t n_queries = 0;    ///< observed queries
  int32_t n_cells = 0;      ///< not 0: rows lie by cell, nothing leaves; cells of a stream
};

struct BlockLoad {
  int32_t live = 0;      ///< blocks that rows belong to
  int32_t slots = 0;     ///< those and free ones
  int32_t capacity = 0;  ///< allocated
};

/// What one layer of one stream holds.
struct LayerLoad {
  bool exists = false;
  int32_t n_slots = 0;  ///< tokens
  int32_t n_f16 = 0, n_cold = 0;
  int32_t n_head = 0;                     ///< f16 rows before the demoted ones
  int32_t f16_pages = 0, cold_pages = 0;  ///< allocated, spare ones too
  int32_t f16_table = 0, cold_table = 0;  ///< entries allocated
  int32_t slot_capacity = 0;              ///< tokens that metadata is allocated for
  BlockLoad k_blocks, v_blocks;
  ReferenceLoad references;
  int32_t chunks = 0, chunk_table = 0;  ///< of an index of keys
  int32_t n_queries = 0;                ///< observed queries that are allocated
  int64_t other_bytes = 0;              ///< allocated beside all this
};

/// Bytes that a layer holds.
int64_t held_bytes(const LayerShape& shape, const LayerLoad& load);

/// The most bytes that it holds at any time until `n_new` more tokens have arrived, were attended
/// and their step has ended. Where one tier takes rows before the other gives them up, what that
/// takes for a moment goes to `passing`: layers do it one after the other.
int64_t bound_bytes(const LayerShape& shape, const LayerLoad& load, int32_t n_new,
                    int64_t& passing);

/// What a layer holds when it was cut to `keep` tokens, what can be demoted is, and what is
/// allocated for nothing was given back. Tiers are bounds: which tokens leave is not known.
LayerLoad cut_to(const LayerShape& shape, const LayerLoad& load, int32_t keep);

/// The same of a layer that has come to hold `keep` tokens, more than it does now.
LayerLoad filled_to(const LayerShape& shape, const LayerLoad& load, int32_t keep);

/// What one cache of a context asks for.
struct CacheLoad {
  int32_t n_streams = 0;
  std::vector<LayerShape> shapes;  ///< [n_layers]
  std::vector<LayerLoad> loads;    ///< [n_layers, n_streams]
  int64_t workspace_held = 0;      ///< of what may be given back
  int64_t fixed_bytes = 0;         ///< of what may not
  /// Most bytes of workspace for a ubatch where no layer holds more than `most_slots` tokens.
  std::function<int64_t(int64_t most_slots)> workspace;

  const LayerLoad& load(size_t layer, int32_t stream) const {
    return loads[layer * static_cast<size_t>(n_streams) + static_cast<size_t>(stream)];
  }
};

/// A context under a cap: all its caches, and the tokens that a ubatch brings each stream.
class CapPlan {
 public:
  CapPlan(std::span<const CacheLoad> caches, std::span<const int32_t> n_new)
      : caches_(caches), n_new_(n_new) {}

  int64_t held() const;
  /// The most bytes until the ubatch has ended, with everything left as it is.
  int64_t bound_as_is() const;
  /// The same if each stream is cut so that it holds at most `level` tokens per layer, those that
  /// arrive included, and what is allocated for nothing is given back.
  int64_t bound_at(int32_t level) const;
  /// The same if the streams that tokens arrive for had come to hold `level` tokens already.
  int64_t bound_filled(int32_t level) const;

  /// The highest level that keeps bound_at within `cap`; none if not even what may never leave
  /// fits.
  std::optional<int32_t> level(int64_t cap) const;
  /// Tokens per layer that a stream of the ubatch may grow to while streams that it brings nothing
  /// stay as they are, or are cut to as many. At least 1. `hint`: the result of a call before.
  int32_t allowance(int64_t cap, int32_t most, int32_t hint) const;

  /// Tokens of a layer that stay at a level.
  int32_t kept(const LayerShape& shape, const LayerLoad& load, int32_t stream, int32_t level) const;

 private:
  template <typename LoadOf>
  int64_t bound(LoadOf load_of, bool trimmed) const;
  bool arrives(int32_t stream) const { return n_new_[static_cast<size_t>(stream)] > 0; }

  std::span<const CacheLoad> caches_;
  std::span<const int32_t> n_new_;  // [n_streams]
};

/// Whole MiB that hold `bytes`.
constexpr int64_t whole_mib(int64_t bytes) { return (bytes + (int64_t{1} << 20) - 1) >> 20; }

}  // namespace kvasir
