// The settings that an evaluation compares: named sets of --kv-* flags.
//
// The first is always "full", Kvasir's own f16 cache with every token kept: the reference. Knows
// flags only.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cache/options.h"

namespace kvasir::eval {

struct Setting {
  std::string name;
  CacheOptions options;
  std::string flags() const { return describe(options); }
};

/// What the command line asks for.
struct SettingRequest {
  CacheOptions base;                ///< --kv-* flags beside the others
  bool base_given = false;          ///< whether there were any
  std::vector<std::string> sets;    ///< --set "NAME: --kv-x V ...", on top of the base
  std::vector<std::string> sweeps;  ///< --sweep kv-x=A,B,C: each set once for each value
};

/// The reference and what is asked for, in order. Without sets the base alone is one, named
/// after its policy. Fails with one line on a wrong flag, a name given twice or "full", a sweep
/// without values, and combinations that validate() refuses.
Result<std::vector<Setting>> make_settings(const SettingRequest& request);

}  // namespace kvasir::eval
