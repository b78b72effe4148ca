// Makes the page of result files: kvasir_report OUT.html FILE.json...
//
// For tests/eval/report_page_test.py, which looks at the page in a browser.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/report/report.h"
#include "eval/report/results.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: kvasir_report OUT.html FILE.json...\n");
    return 2;
  }
  std::vector<nlohmann::ordered_json> results;
  kvasir::eval::ReportOptions options;
  for (int i = 2; i < argc; ++i) {
    auto result = kvasir::eval::read_result(argv[i]);
    if (!result) {
      std::fprintf(stderr, "%s\n", result.error().c_str());
      return 2;
    }
    results.push_back(std::move(result.value()));
    options.names.emplace_back(argv[i]);
  }
  options.not_reproduced = "Example: 0.00 published, 1.00 here.";
  const auto page = kvasir::eval::to_html(results, options);
  if (!page) {
    std::fprintf(stderr, "%s\n", page.error().c_str());
    return 2;
  }
  std::ofstream file(argv[1], std::ios::binary);
  if (!(file << page.value())) {
    std::fprintf(stderr, "%s: cannot be written\n", argv[1]);
    return 2;
  }
  return 0;
}
