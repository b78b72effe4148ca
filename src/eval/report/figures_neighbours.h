// The figures of a result of `kvasir eval neighbours`. Pure.
#pragma once

#include <vector>

#include "eval/report/figures.h"

namespace kvasir::eval {

/// Appends the figures: shares by layer, lengths by layer, cumulated spectra.
void add_neighbours(const nlohmann::ordered_json& result, std::vector<Figure>& figures);

}  // namespace kvasir::eval
