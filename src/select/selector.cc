#include "select/selector.h"

#include <algorithm>

namespace kvasir {

int32_t Keep::of(int32_t n) const {
  const int32_t wanted = tokens > 0 ? tokens : static_cast<int32_t>(percent * n / 100);
  return std::clamp(wanted, std::min(n, 1), n);
}

}  // namespace kvasir
