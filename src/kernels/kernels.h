// One table of functions per instruction set; the reference table defines every entry.
//
// A kernel knows neither policy nor cache: it reads one page of rows of one KV head for a set of
// query rows and folds it into their online-softmax state (Milakov & Gimelshein 2018, the form
// that FlashAttention uses). Pages may be visited in any order and split among threads; states
// are merged afterwards. No allocation, no threads, no global state.
//
// Page layout (f16, IEEE binary16, little endian). A page holds kPageSlots tokens of one KV head:
//   K: interleaved by kLaneSlots slots: element (slot s, channel d) is at
//        k[(s / kLaneSlots) * head_dim_k * kLaneSlots + d * kLaneSlots + s % kLaneSlots]
//      so that one vector holds one channel of several tokens and scores need no horizontal sums.
//   V: row-major: element (slot s, channel d) is at v[s * head_dim_v + d].
// Slots at and beyond n_slots may hold anything, NaN included, and never reach a result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/coded_page.h"
#include "kernels/packed_rows.h"

namespace kvasir {

inline constexpr int32_t kPageSlots = 64;    ///< tokens per page
inline constexpr int32_t kLaneSlots = 16;    ///< tokens interleaved in K
inline constexpr int32_t kMaxHeadDim = 576;  ///< largest head_dim_k or head_dim_v

/// Online-softmax state of a set of query rows. Row r: maximum m[r], sum s[r] of exp(score - m),
/// and the unnormalised output acc + r * acc_stride, [head_dim_v]. Initial: m = -inf, s = 0, acc =
/// 0.
struct SoftmaxState {
  float* m;            ///< [n_rows]
  float* s;            ///< [n_rows]
  float* acc;          ///< [n_rows, acc_stride]
  int32_t acc_stride;  ///< elements, >= head_dim_v
};

/// One page of one KV head against n_rows query rows.
struct PageArgs {
  const uint16_t* k;      ///< f16 page, layout above, 64-byte aligned
  const uint16_t* v;      ///< f16 page, layout above, 64-byte aligned
  int32_t head_dim_k;     ///< 1..kMaxHeadDim, any value (80, 96, 100 too)
  int32_t head_dim_v;     ///< 1..kMaxHeadDim
  int32_t n_slots;        ///< 1..kPageSlots valid tokens
  int32_t n_rows;         ///< query rows, >= 1: queries x query heads of the KV head
  const float* const* q;  ///< [n_rows] pointers to [head_dim_k] f32, not yet scaled
  float scale;            ///< applied to q.k
  float soft_cap;         ///< 0: none; else score = soft_cap * tanh(q.k * scale / soft_cap)
  /// [n_rows] pointers to n_slots f16 mask values, or null for a row that sees every slot; the
  /// whole array may be null. score += slope * mask; -inf hides the slot.
  const uint16_t* const* mask;
  const float* slope;  ///< [n_rows] ALiBi slopes, or null for 1
  /// [n_rows] pointers to n_slots f32 that receive the final scores (after cap and mask; -inf for
  /// hidden slots), or null. Used for attention mass. Elements past n_slots are not written.
  float* const* scores;
  /// K of the page that the caller attends next, or null. A hint: its cache lines are fetched while
  /// this page is computed, which is what lets decode run at the speed of memory. Never read.
  const uint16_t* next_k = nullptr;
};

/// A row of one KV head that lies as a difference from the mean of others.
struct RestoreArgs {
  Packing references;               ///< of the others: kSigned, 8 bits, kGroup
  Packing difference;               ///< kUnsigned, kGroupZero
  int32_t head_dim;                 ///< 1..kMaxHeadDim
  const std::byte* const* fathers;  ///< [n_fathers] rows
  int32_t n_fathers;                ///< >= 1
  const std::byte* packed;          ///< the difference
  bool turned;                      ///< it was turned (turn_row) before it was packed
};

/// The rotation of a row (RoFormer, eq. 15) by the sum of two angles for each pair of channels.
struct RotateArgs {
  const float* high;  ///< [2, n_pairs] cosines, then sines
  const float* low;   ///< the same of the other angle
  int32_t n_pairs;
  bool neox;       ///< pair i is channels (i, i + n_pairs), else (2 i, 2 i + 1), from `offset` on
  int32_t offset;  ///< first rotated channel
};

/// One query against sketched keys.
struct SketchQuery {
  /// [n_bytes, 2, 16]: what the low (high) half of a code byte adds, 0 .. 127.
  const uint8_t* tables;
  float step;    ///< of what tables add
  float offset;  ///< of the sum, once
};

/// Keys of one page of one KV head as sketches: 2 bits a channel and a step for each token.
struct SketchArgs {
  /// [n_bytes, kPageSlots]: byte b of a token holds channels 4b .. 4b + 3, the lowest bits first.
  const uint8_t* codes;
  const uint16_t* steps;       ///< [kPageSlots] f16
  int32_t n_bytes;             ///< of a token, 1..kMaxHeadDim / 4
  int32_t n_slots;             ///< 1..kPageSlots valid tokens
  int32_t n_rows;              ///< query rows, >= 1
  const SketchQuery* queries;  ///< [n_rows]
  float* const* scores;        ///< [n_rows] pointers to n_slots f32
};

/// The largest of some scores, and the sum of exp(score - most) over them.
struct ScoreSums {
  float most;
  float sum;
};

struct KvKernels {
  const char* name;  ///< "reference", "avx2", "avx512", "neon", ...

  /// Folds a page into `state`. A row whose scores are all -inf is unchanged. A NaN score makes s
  /// and acc of its row NaN.
  /// Requires: state arrays of args.n_rows rows; no output overlaps an input.
  void (*attend_page)(const PageArgs& args, const SoftmaxState& state);

  /// Writes n_tokens f32 rows of one KV head into a page at consecutive slots (round to nearest
  /// even, overflow to infinity). Row t is at rows + t * row_stride (elements).
  /// Requires: 0 <= first_slot, first_slot + n_tokens <= kPageSlots.
  void (*store_k)(uint16_t* k, int32_t head_dim_k, int32_t first_slot, int32_t n_tokens,
                  const float* rows, ptrdiff_t row_stride);
  void (*store_v)(uint16_t* v, int32_t head_dim_v, int32_t first_slot, int32_t n_tokens,
                  const float* rows, ptrdiff_t row_stride);

  /// Adds exp(scores[i] - m) / s * weight to mass[i] for i in [0, n). -inf scores add 0.
  /// Requires: s > 0.
  void (*add_mass)(const float* scores, int32_t n, float m, float s, float weight, float* mass);

  /// One pass over n logits: maximum, Z = sum exp(l - max), S = sum (l - max) exp(l - max), and the
  /// largest two values. NaN or +inf anywhere or no finite value: finite = false, the rest is
  /// unspecified. -inf entries count as probability 0. Accuracy: relative error of Z and S below
  /// 1e-6, where terms with l - max < -87 may count as 0.
  struct LogitSums {
    bool finite;
    float max1, max2;  ///< max2 = -inf when n == 1
    int32_t argmax;    ///< index of the largest; lowest on ties
    double z, s;
  };
  LogitSums (*logit_sums)(const float* logits, int32_t n);

  /// Writes the values of packed rows to out, [n_rows, head_dim]. Any bytes are allowed: scales
  /// that are infinite or NaN give such values. All tables give the same bits, but for NaN.
  /// Reads no byte outside the rows and what they share. No pointer needs to be aligned.
  void (*unpack_rows)(const PackedRows& args, float* out);

  /// attend_page on codes: rows [first_row, first_row + args.n_rows) of `queries` against `page`;
  /// k, v and next_k of args are not read, q are
  /// the same rows. Null where the instruction
  /// set has no dot product of bytes: unpack the rows then.
  /// Requires: attends_coded(); finite scales, zeros and means; scales of groups >= 0.
  /// Errors beside those of attend_page, in units of 2^-16: of max|q| for each channel of q (2^-8
  /// with eight_bits), and of the page's largest p * scale for each p * scale.
  void (*attend_coded)(const PageArgs& args, const CodedPage& page, CodedQueries& queries,
                       int32_t first_row, const SoftmaxState& state);

  /// attend_page with queries, probabilities, K and V rounded to bf16 (8 significant bits) where
  /// there are more than a few rows, sums in f32. Null where the instruction set lacks it.
  void (*attend_page_bf16)(const PageArgs& args, const SoftmaxState& state);

  /// All dot products of two sets of f32 rows: out[i * n_b + j] = a_i . b_j, rows of `dim` elements
  /// one behind the other. Error of each below (dim + 1) 2^-24 times the sum of |terms|.
  void (*dot_rows)(const float* a, int32_t n_a, const float* b, int32_t n_b, int32_t dim,
                   float* out);

  /// Walsh-Hadamard transform in place of each power-of-two part of [0, head_dim), largest first,
  /// scaled to keep lengths. All tables give the same bits.
  void (*turn_row)(float* row, int32_t head_dim);

  /// Writes (sum of the fathers, in order) / n_fathers + difference to out, [head_dim]. All tables
  /// give the same bits, but for NaN. No pointer needs to be aligned.
  void (*restore_row)(const RestoreArgs& args, float* out);

  /// Rotates a row in place; channels beside the pairs stay. Error below 2^-22 of the length of
  /// each pair.
  void (*rotate_row)(const RotateArgs& args, float* row);

  /// Scores of sketched keys: (step * sum of what tables add + offset) * step of the token, and
  /// their sums for each row. Errors: of a score 4 * 2^-24 times step * sum + |offset|, scaled
  /// alike; of a sum 1e-5 of it, and what the scores' errors make of it.
  /// Requires: finite queries and steps of valid tokens.
  void (*score_sketch)(const SketchArgs& args, ScoreSums* sums);
};

/// Tables this CPU can run, slowest first; [0] is the reference. Tests iterate over this.
std::span<const KvKernels* const> supported_kernels();

/// The table of that name, or null.
const KvKernels* find_kernels(std::string_view name);

/// The fastest table of this CPU.
const KvKernels& best_kernels();

}  // namespace kvasir
