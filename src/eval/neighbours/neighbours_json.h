// The figures of a layer as a result file has them (docs/evaluation-schema.md). Pure.
#pragma once

#include "eval/neighbours/neighbours.h"
#include "eval/run/run_file.h"

namespace kvasir::eval {

Json layer_json(const LayerFigures& figures);
/// Upper ends of the bins of distances; the last bin has none.
Json distance_ends_json();
/// Directions at which the cumulated spectrum is given.
Json directions_json();

}  // namespace kvasir::eval
