// Results of a fidelity run as JSON (docs/evaluation-schema.md) and as a table for a terminal.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "eval/fidelity/fidelity.h"
#include "eval/run/run_file.h"
#include "eval/run/settings.h"

namespace kvasir::eval {

/// `confidence` of the schema: values of c and where tau cuts them.
Json confidence_json(std::span<const double> values, double tau);

/// One set: what the schema says of `sets`. `bytes_full` is the reference's cache at the end, 0 if
/// there was none.
Json fidelity_set(const Setting& setting, const FidelityPlan& plan, const FidelityRun& run,
                  bool exact, int64_t bytes_full);

/// What the schema says of `reference`.
Json fidelity_reference(const std::string& name, const WholeRows& rows,
                        std::span<const double> step_ms, int64_t bytes_full);

/// The sets as lines of at most 112 columns, each KL beside the model's floor; a KL below twice
/// the floor reads "<= floor", none at all 0. The ranges are 95 % intervals; those behind the
/// perplexity are of its ratio to the reference's.
std::string fidelity_table(const Json& sets, double floor);

}  // namespace kvasir::eval
