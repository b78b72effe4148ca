// The list of methods. A new one is a line METHOD("name", maker) and a file that defines
// make_selector_MAKER.
#include "select/selector.h"

namespace kvasir {

// A name keeps its meaning for ever: it stands in reports.
#define KVASIR_SELECTORS(METHOD) \
  METHOD("dense", dense)         \
  METHOD("omnikv", omnikv)       \
  METHOD("quest", quest)         \
  METHOD("sketch", sketch)       \
  METHOD("sketch16", sketch16)

#define KVASIR_DECLARE(name, maker) \
  Result<std::unique_ptr<Selector>> make_selector_##maker(const SelectParams& params);
KVASIR_SELECTORS(KVASIR_DECLARE)
#undef KVASIR_DECLARE

namespace {

struct Method {
  std::string_view name;
  Result<std::unique_ptr<Selector>> (*make)(const SelectParams& params);
};

#define KVASIR_ENTRY(name, maker) {name, make_selector_##maker},
constexpr Method kMethods[] = {KVASIR_SELECTORS(KVASIR_ENTRY)};
#undef KVASIR_ENTRY

}  // namespace

Result<std::unique_ptr<Selector>> make_selector(std::string_view name, const SelectParams& params) {
  std::string known;
  for (const Method& method : kMethods) {
    if (method.name == name) return method.make(params);
    known.append(known.empty() ? "" : ", ").append(method.name);
  }
  return Error{"--kv-select " + std::string(name) + ": no such selection; allowed are " + known};
}

std::vector<std::string_view> selector_names() {
  std::vector<std::string_view> names;
  for (const Method& method : kMethods) names.push_back(method.name);
  return names;
}

}  // namespace kvasir
