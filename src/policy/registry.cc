// The list of methods. A new one is a line METHOD("name", maker) and a file that defines
// make_policy_MAKER.
#include <string>

#include "policy/policy.h"

namespace kvasir {

// A name keeps its meaning for ever: it stands in reports and in saved caches.
#define KVASIR_POLICIES(METHOD)        \
  METHOD("none", none)                 \
  METHOD("window", window)             \
  METHOD("conf", conf)                 \
  METHOD("conf+", conf_plus)           \
  METHOD("streaming", streaming)       \
  METHOD("h2o", h2o)                   \
  METHOD("scissorhands", scissorhands) \
  METHOD("snapkv", snapkv)             \
  METHOD("pyramidkv", pyramidkv)       \
  METHOD("tova", tova)                 \
  METHOD("keydiff", keydiff)           \
  METHOD("knorm", knorm)               \
  METHOD("random", random)             \
  METHOD("recency", recency)           \
  METHOD("attention", attention)

#define KVASIR_DECLARE(name, maker) Result<Policy> make_policy_##maker(const PolicyParams& params);
KVASIR_POLICIES(KVASIR_DECLARE)
#undef KVASIR_DECLARE

namespace {

struct Method {
  std::string_view name;
  Result<Policy> (*make)(const PolicyParams& params);
};

#define KVASIR_ENTRY(name, maker) {name, make_policy_##maker},
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
