// `--methods N`: one setting for each registered policy and format, all with the bytes of N tokens.
//
// The bytes are those of a layer that keeps N tokens as f16 under the policy `window`: rows, and
// cell and position of each token. A setting keeps as many tokens as fit: fewer where a ranker
// remembers more of a token, more where older rows are compressed. Fixed workspace, such as the
// queries that a policy looks back on, is not counted; the measured bytes of a result have it.
// Walks the registries, so that a method that is registered later comes by itself.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "cache/options.h"
#include "eval/run/settings.h"

struct llama_model;

namespace kvasir::eval {

/// What the rows of one layer look like, and how many layers share a budget.
struct RowGeometry {
  int32_t n_layers = 1;
  int32_t n_kv_heads = 1;
  int32_t head_dim_k = 1;
  int32_t head_dim_v = 1;
};

/// The geometry of the first layer, from the model's own metadata.
RowGeometry row_geometry(const llama_model* model);

/// Bytes of a layer that keeps `tokens` tokens under these options, mean over time: the f16 window
/// swings by the rows that a format encodes at once. Fails where policy_of or parse_format fail.
Result<double> layer_bytes(const CacheOptions& options, const RowGeometry& geometry, double tokens);

/// The settings of --methods, on top of `base`:
///   each policy that evicts, with f16 rows, called as it is registered; policies that keep all
///   tokens are the reference itself;
///   each format but f16 with policy `window`, called as it is registered;
///   CONF-KV+INT8 ("conf, int8-channel") and CONF-KV-L (the same budget with a pyramid, so fewer
///   bytes: that is the paper's claim).
/// A policy's budget is chosen so that it keeps that many tokens, mean over layers and steps, if
/// every step is sure: conf gets --kv-budget 2 N, which is N when sure and 2 N when unsure, and as
/// few steps in a row are unsure, what it holds stays near N; scissorhands, which gives up half of
/// its tokens at once, gets a third more (docs/evaluation.md).
/// Fails with one line that names the setting, as validate() does.
Result<std::vector<Setting>> method_settings(int32_t n, const RowGeometry& geometry,
                                             const CacheOptions& base);

/// The settings of --formats, on top of `base`: each format but f16 with every token kept, called
/// as it is registered. Fails as validate() does.
Result<std::vector<Setting>> format_settings(const CacheOptions& base);

}  // namespace kvasir::eval
