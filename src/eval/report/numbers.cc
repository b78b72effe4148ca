#include "eval/report/numbers.h"

#include <cstdio>

namespace kvasir::eval {

std::string number_text(double value) {
  char out[64];
  const bool large = value >= 1000 && value < 1e9;
  std::snprintf(out, sizeof(out), large ? "%.0f" : "%.3g", value);
  return out;
}

std::string fixed_text(double value, int digits) {
  if (value > 1e12 || value < -1e12) return number_text(value);
  char out[64];
  std::snprintf(out, sizeof(out), "%.*f", digits, value);
  return out;
}

std::string mib_text(double bytes) {
  const double mib = bytes / 1048576;
  return fixed_text(mib, mib < 10 ? 2 : 1);
}

std::string percent_text(double share) { return fixed_text(100 * share, 1) + " %"; }

std::string count_text(double count) {
  std::string digits = fixed_text(count, 0);
  if (digits.find_first_not_of("0123456789") != std::string::npos) return digits;
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

std::string kl_text(double kl, double floor) {
  return floor > 0 && kl < 2 * floor ? "<= floor" : number_text(kl);
}

std::string duration_text(double seconds) {
  if (seconds < 120) return fixed_text(seconds, 0) + " s";
  if (seconds < 7200) return fixed_text(seconds / 60, 0) + " min";
  return fixed_text(seconds / 3600, 1) + " h";
}

std::string interval_text(const nlohmann::ordered_json& score) {
  const auto text = [&](const char* name) { return fixed_text(score.at(name).get<double>(), 2); };
  if (score.at("mean").is_null()) return "none";
  if (score.at("low").is_null() || score.at("high").is_null()) return text("mean");
  return text("mean") + " [" + text("low") + ", " + text("high") + "]";
}

}  // namespace kvasir::eval
