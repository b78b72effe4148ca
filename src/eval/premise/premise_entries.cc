#include "eval/premise/premise_entries.h"

#include <cmath>
#include <limits>
#include <string>

namespace kvasir::eval {
namespace {

// JSON knows no infinity; a margin is infinite where one token has all the mass.
Json margin_json(double margin) {
  if (std::isfinite(margin)) return margin;
  return nullptr;
}

double margin_of(const Json& margin) {
  return margin.is_null() ? std::numeric_limits<double>::infinity() : margin.get<double>();
}

}  // namespace

Result<void> add_point(RunFile& file, const PremisePoint& point, double seconds) {
  return file.add(std::to_string(point.position),
                  {{"position", point.position},
                   {"kl", point.kl},
                   {"c", point.c},
                   {"entropy", point.entropy},
                   {"p1", point.p1},
                   {"margin", margin_json(point.margin)},
                   {"c_at", point.c_at}},
                  seconds);
}

std::vector<PremisePoint> points_of(const RunFile& file, const PremisePlan& plan) {
  std::vector<PremisePoint> points;
  for (int32_t i = 0; i < plan.n_points(); ++i) {
    const Json* entry = file.find(std::to_string(plan.position(i)));
    if (entry == nullptr || entry->value("c_at", Json()).size() != plan.temperatures.size()) break;
    PremisePoint point;
    point.position = entry->at("position");
    point.kl = entry->at("kl");
    point.c = entry->at("c");
    point.entropy = entry->at("entropy");
    point.p1 = entry->at("p1");
    point.margin = margin_of(entry->at("margin"));
    point.c_at = entry->at("c_at").get<std::vector<double>>();
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace kvasir::eval
