// FNV-1a, 64 bits: one number for a text, the same on every machine. Not for adversaries.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvasir {

inline constexpr uint64_t kFnv1aStart = 14695981039346656037ULL;

/// The hash of `bytes`, going on from `hash`.
constexpr uint64_t fnv1a(std::string_view bytes, uint64_t hash = kFnv1aStart) {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

}  // namespace kvasir
