#include "eval/report_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "eval/report/compare.h"
#include "eval/report/published.h"
#include "eval/report/report.h"
#include "eval/report/results.h"

namespace kvasir::eval {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int complain(const char* command, const std::string& message, int code) {
  std::fprintf(stderr, "kvasir eval %s: %s\n", command, message.c_str());
  return code;
}

std::optional<int> parse(CLI::App& app, const char* command, std::vector<std::string> args) {
  try {
    std::reverse(args.begin(), args.end());  // as CLI11 takes them
    app.parse(args);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return complain(command, error.what(), kUsage);
  }
  return std::nullopt;
}

Result<std::vector<Json>> read_all(const std::vector<std::string>& paths) {
  std::vector<Json> results;
  for (const std::string& path : paths) {
    auto result = read_result(path);
    if (!result) return Error{result.error()};
    results.push_back(std::move(result.value()));
  }
  return results;
}

}  // namespace

Result<void> write_page(const std::string& path, std::span<const Json> results,
                        const std::vector<std::string>& names) {
  ReportOptions options;
  options.names = names;
  options.not_reproduced = not_reproduced(results);
  auto page = to_html(results, options);
  if (!page) return Error{page.error()};
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    return Error{path + " exists and is not overwritten; name another file or remove it"};
  }
  const std::string fresh = path + ".new";
  std::ofstream out(fresh, std::ios::binary);
  out << page.value();
  out.close();
  std::error_code failed;
  if (out) std::filesystem::rename(fresh, path, failed);
  if (out && !failed) return {};
  const std::string reason = failed ? failed.message() : std::strerror(errno);
  std::filesystem::remove(fresh, ignored);
  return Error{"cannot write " + path + ": " + reason};
}

int report_command(const std::vector<std::string>& args) {
  CLI::App app("One page with plots from the results of kvasir eval", "kvasir eval report");
  std::vector<std::string> files;
  std::string html;
  app.add_option("FILE", files, "results, as --json wrote them")->required();
  app.add_option("--html", html, "the page to write")->required();
  if (auto code = parse(app, "report", args)) return *code;
  auto results = read_all(files);
  if (!results) return complain("report", results.error(), kUsage);
  auto written = write_page(html, results.value(), files);
  if (!written) return complain("report", written.error(), kFailed);
  return 0;
}

int compare_command(const std::vector<std::string>& args) {
  CLI::App app("Two results of kvasir eval side by side", "kvasir eval compare");
  std::vector<std::string> files;
  CompareOptions options;
  app.add_option("FILE", files, "two results, as --json wrote them")->required()->expected(2);
  app.add_flag("--allow-different", options.allow_different,
               "compare even if model, text or questions differ");
  if (auto code = parse(app, "compare", args)) return *code;
  auto results = read_all(files);
  if (!results) return complain("compare", results.error(), kUsage);
  options.name_a = files[0];
  options.name_b = files[1];
  auto table = compare_results(results.value()[0], results.value()[1], options);
  if (!table) return complain("compare", table.error(), kUsage);
  std::fputs(table.value().c_str(), stdout);
  return 0;
}

}  // namespace kvasir::eval
