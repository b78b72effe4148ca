#include "kernels/reference/reference.h"

namespace kvasir::reference {

const KvKernels& table() {
  static constexpr KvKernels kTable{"reference", attend_page, store_k,      store_v,     add_mass,
                                    logit_sums,  unpack_rows, attend_coded, nullptr,     dot_rows,
                                    turn_row,    restore_row, rotate_row,   score_sketch};
  return kTable;
}

}  // namespace kvasir::reference
