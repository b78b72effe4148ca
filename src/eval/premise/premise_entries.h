// Points of a premise run as entries of its file, so that a run that stopped goes on.
#pragma once

#include <vector>

#include "eval/premise/premise.h"
#include "eval/run/run_file.h"

namespace kvasir::eval {

/// Notes a point; `seconds` is the work it took. Fails with one line on a full disk.
Result<void> add_point(RunFile& file, const PremisePoint& point, double seconds);

/// The points that the file holds, from the plan's first on, up to the first that is missing.
std::vector<PremisePoint> points_of(const RunFile& file, const PremisePlan& plan);

}  // namespace kvasir::eval
