// The scalar definition of every kernel: plain loops, sums in double.
//
// What kernels.h leaves to a formula is decided here and the other tables are tested against it.
// Knows nothing of instruction sets. Pure functions of their arguments, safe in any thread.
#pragma once

#include "kernels/kernels.h"

namespace kvasir::reference {

void attend_page(const PageArgs& args, const SoftmaxState& state);
void store_k(uint16_t* k, int32_t head_dim_k, int32_t first_slot, int32_t n_tokens,
             const float* rows, ptrdiff_t row_stride);
void store_v(uint16_t* v, int32_t head_dim_v, int32_t first_slot, int32_t n_tokens,
             const float* rows, ptrdiff_t row_stride);
void add_mass(const float* scores, int32_t n, float m, float s, float weight, float* mass);
KvKernels::LogitSums logit_sums(const float* logits, int32_t n);
void unpack_rows(const PackedRows& args, float* out);
void attend_coded(const PageArgs& args, const CodedPage& page, CodedQueries& queries,
                  int32_t first_row, const SoftmaxState& state);
void dot_rows(const float* a, int32_t n_a, const float* b, int32_t n_b, int32_t dim, float* out);
void turn_row(float* row, int32_t head_dim);
void restore_row(const RestoreArgs& args, float* out);
void rotate_row(const RotateArgs& args, float* row);
void score_sketch(const SketchArgs& args, ScoreSums* sums);

/// The table named "reference".
const KvKernels& table();

}  // namespace kvasir::reference
