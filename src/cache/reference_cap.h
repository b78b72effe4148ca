// What a cap on bytes counts of rows that are stored as differences from others (the residual
// tier): arithmetic alone, for memory_cap.h.
//
// A reference outlives its token for as long as a difference needs it, so how many there are does
// not follow from how many tokens there are: after tokens have left there are at most those that
// were there before, and at most one for each sink token, for each row that is a reference itself
// and `neighbours` for each difference. Bounds are from above.
#pragma once

#include <cstdint>

namespace kvasir {

/// What references cost.
struct ReferenceShape {
  int64_t page = 0;              ///< bytes that a page of references occupies; 0: there are none
  int32_t page_rows = 1;         ///< references of a page
  int32_t unit = 1;              ///< rows that are demoted at once
  int32_t per_unit = 0;          ///< references that a unit brings, at most
  int32_t stride = 0;            ///< of n rows ceil(n / stride) are references themselves; 0: none
  int32_t neighbours = 0;        ///< references of a difference, at most
  int64_t index_bytes = 0;       ///< of a reference, beside its row
  int64_t group_bytes = 0;       ///< of what says where group_rows demoted rows lie
  int32_t group_rows = 1;        ///< rows of a group
  int32_t sinks = 0;             ///< references that are sink tokens
  int32_t page_differences = 1;  ///< differences of a page of demoted rows

  bool any() const { return page > 0; }
};

/// What a layer of a stream holds of them.
struct ReferenceLoad {
  int32_t n_differences = 0;     ///< demoted rows that are differences
  int32_t n_own = 0;             ///< demoted rows that are references
  int32_t n_live = 0;            ///< references that are needed
  int32_t n_indices = 0;         ///< those and free ones
  int32_t pages = 0, table = 0;  ///< allocated
  int32_t index_capacity = 0;    ///< references that index_bytes are allocated for
  int32_t own_capacity = 0;      ///< the same of n_own
  int32_t group_capacity = 0;    ///< groups that are allocated
  int32_t scratch_capacity = 0;  ///< groups of scratch
  int64_t wide_bytes = 0;        ///< what fathers past the 65,534th take beside
};

/// Bytes of all that.
int64_t held_bytes(const ReferenceShape& shape, const ReferenceLoad& load);

/// The most bytes until n_demoted more rows are taken and any have left, behind n_cold that are
/// there: of pages, and of tables.
struct ReferenceBound {
  int64_t pages = 0, tables = 0;
};
ReferenceBound reference_bound(const ReferenceShape& shape, const ReferenceLoad& load,
                               int64_t n_cold, int64_t n_demoted);

/// Demoted rows that are differences, of those that are there and n more, at most.
int64_t differences_with(const ReferenceShape& shape, const ReferenceLoad& load, int64_t n);

/// Takes n rows (whole units) behind n_cold.
void take_rows(const ReferenceShape& shape, ReferenceLoad& load, int64_t n_cold, int64_t n);
/// At most n_cold rows are left.
void cut_rows(const ReferenceShape& shape, ReferenceLoad& load, int64_t n_cold);
/// Nothing is allocated that the n_cold rows do not need.
void give_back(const ReferenceShape& shape, ReferenceLoad& load, int64_t n_cold);
/// The worst that a history may leave: every index that the tokens of any layer may need.
void assume_worst(ReferenceLoad& load);

}  // namespace kvasir
