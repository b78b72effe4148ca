#include <algorithm>
#include <array>

#include "kernels/highway/tables.h"
#include "kernels/kernels.h"
#include "kernels/reference/reference.h"

namespace kvasir {
namespace {

// Filled once, on first use; the order is that of speed.
struct Registry {
  Registry() {
    tables[count++] = &reference::table();
    for (const KvKernels* table : highway::supported_tables()) tables[count++] = table;
  }

  std::array<const KvKernels*, 1 + highway::kMaxTables> tables{};
  size_t count = 0;
};

const Registry& registry() {
  static const Registry instance;
  return instance;
}

}  // namespace

std::span<const KvKernels* const> supported_kernels() {
  return {registry().tables.data(), registry().count};
}

const KvKernels* find_kernels(std::string_view name) {
  const auto tables = supported_kernels();
  const auto found = std::find_if(tables.begin(), tables.end(),
                                  [name](const KvKernels* t) { return t->name == name; });
  return found != tables.end() ? *found : nullptr;
}

const KvKernels& best_kernels() { return *supported_kernels().back(); }

}  // namespace kvasir
