// Vectors whose memory is counted: they give it back when told to, and those whose contents do not
// matter between uses grow by an eighth, not to twice the size, and copy nothing.
#pragma once

#include <cstddef>
#include <vector>

namespace kvasir {

/// Empties `values` and gives its memory back; assigning {} would keep it.
template <typename T>
void give_back(std::vector<T>& values) {
  std::vector<T>().swap(values);
}

/// Makes `values` hold at least n elements of any value.
template <typename T>
void make_room(std::vector<T>& values, size_t n) {
  if (n > values.capacity()) {
    give_back(values);
    values.reserve(n + n / 8);
  }
  if (values.size() < n) values.resize(n);
}

}  // namespace kvasir
