// Numbers as people read them, the same in the page and in the tables of `compare`. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kvasir::eval {

/// Three significant digits, without trailing zeros: "0.0123", "1.23e-05", "1234".
std::string number_text(double value);
/// With this many digits behind the point.
std::string fixed_text(double value, int digits);
/// Binary megabytes, without the unit: "96.0".
std::string mib_text(double bytes);
/// A share as "71.0 %".
std::string percent_text(double share);
/// Groups of three digits: "12,345".
std::string count_text(double count);
/// A KL value in nats, or "<= floor" where it is below twice the floor.
std::string kl_text(double kl, double floor);
/// Minutes and hours: "45 s", "12 min", "3.2 h".
std::string duration_text(double seconds);
/// "0.71 [0.62, 0.79]", or "none" where the mean is null.
std::string interval_text(const nlohmann::ordered_json& score);

}  // namespace kvasir::eval
