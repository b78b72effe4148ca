// How sure a mean of scores is.
//
// Knows numbers only. Pure: the same scores and seed give the same interval on every machine.
#pragma once

#include <cstdint>
#include <span>

namespace kvasir::eval {

struct Interval {
  double mean = 0;
  double low = 0;
  double high = 0;
};

/// The 95 % interval of Wilson for `right` right ones of `count`. Requires: 0 < count, right <=
/// count.
Interval wilson_interval(int64_t right, int64_t count);

/// The 95 % interval of the mean between the percentiles of 2,000 means, each of as many scores
/// drawn with replacement. Requires: scores is not empty and shorter than 2^32.
Interval bootstrap_interval(std::span<const double> scores, uint64_t seed);

/// The same for values that are not independent of their neighbours, such as those of a text read
/// token by token: each of the 2,000 means is of runs of consecutive values drawn with replacement
/// (circular block bootstrap), of 32 values, or of a sixteenth of all where that is fewer.
/// Requires: values is not empty and shorter than 2^32.
Interval block_bootstrap_interval(std::span<const double> values, uint64_t seed);

/// Wilson's interval if every score is 0 or 1, else the bootstrap's. Requires: scores is not empty.
Interval mean_interval(std::span<const double> scores, uint64_t seed);

}  // namespace kvasir::eval
