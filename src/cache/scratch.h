// Vectors whose contents do not matter between uses: they grow by an eighth, not to twice the size,
// and copy nothing, so that what they take is known in advance.
#pragma once

#include <cstddef>
#include <vector>

namespace kvasir {

/// Makes `values` hold at least n elements of any value.
template <typename T>
void make_room(std::vector<T>& values, size_t n) {
  if (n > values.capacity()) {
    values = {};
    values.reserve(n + n / 8);
  }
  if (values.size() < n) values.resize(n);
}

}  // namespace kvasir
