// The list of methods. A new one is a line in KVASIR_POLICIES and a file that defines
// make_policy_NAME.
#include <string>

#include "policy/policy.h"

namespace kvasir {

// A name keeps its meaning for ever: it stands in reports and in saved caches.
#define KVASIR_POLICIES(METHOD) \
  METHOD(none)                  \
  METHOD(window)                \
  METHOD(conf)

#define KVASIR_DECLARE(name) Result<Policy> make_policy_##name(const PolicyParams& params);
KVASIR_POLICIES(KVASIR_DECLARE)
#undef KVASIR_DECLARE

namespace {

struct Method {
  std::string_view name;
  Result<Policy> (*make)(const PolicyParams& params);
};

#define KVASIR_ENTRY(name) {#name, make_policy_##name},
constexpr Method kMethods[] = {KVASIR_POLICIES(KVASIR_ENTRY)};
#undef KVASIR_ENTRY

}  // namespace

Result<Policy> make_policy(std::string_view name, const PolicyParams& params) {
  std::string known;
  for (const Method& method : kMethods) {
    if (method.name == name) return method.make(params);
    known.append(known.empty() ? "" : ", ").append(method.name);
  }
  return Error{"--kv-policy " + std::string(name) + ": no such policy; allowed are " + known};
}

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for (const Method& method : kMethods) names.push_back(method.name);
  return names;
}

}  // namespace kvasir
