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
#include "eval/report/markdown.h"
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

// Writes `text` beside `path` and renames it, so that a file is whole or as it was.
Result<void> write_text(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  std::ofstream out(fresh, std::ios::binary);
  out << text;
  out.close();
  std::error_code failed;
  if (out) std::filesystem::rename(fresh, path, failed);
  if (out && !failed) return {};
  const std::string reason = failed ? failed.message() : std::strerror(errno);
  std::error_code ignored;
  std::filesystem::remove(fresh, ignored);
  return Error{"cannot write " + path + ": " + reason};
}

// Only a page that was written by the same command is replaced.
Result<void> write_markdown(const std::string& path, std::span<const Json> results,
                            const std::vector<std::string>& names) {
  auto text = to_markdown(results, names);
  if (!text) return Error{text.error()};
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    std::ifstream in(path, std::ios::binary);
    std::string first;
    std::getline(in, first);
    if (first != kMarkdownMark) {
      return Error{path + " exists and was not written by this command; name another file"};
    }
  }
  return write_text(path, text.value());
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
  return write_text(path, page.value());
}

int report_command(const std::vector<std::string>& args) {
  CLI::App app("Results of kvasir eval for people: a page with plots, tables as Markdown, or both",
               "kvasir eval report");
  std::vector<std::string> files;
  std::string html;
  std::string markdown;
  app.add_option("FILE", files, "results, as --json wrote them")->required();
  app.add_option("--html", html, "the page with plots to write");
  app.add_option("--markdown", markdown,
                 "the main table, what CONF-KV loses and the published claims; replaces its own "
                 "kind only");
  if (auto code = parse(app, "report", args)) return *code;
  if (html.empty() && markdown.empty()) {
    return complain("report", "nothing to write: give --html FILE, --markdown FILE or both",
                    kUsage);
  }
  auto results = read_all(files);
  if (!results) return complain("report", results.error(), kUsage);
  if (!markdown.empty()) {
    auto written = write_markdown(markdown, results.value(), files);
    if (!written) return complain("report", written.error(), kFailed);
  }
  if (html.empty()) return 0;
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
