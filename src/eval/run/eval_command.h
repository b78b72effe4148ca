// What all commands of `kvasir eval` share: their common flags, settings, model, and the head of
// their result.
//
// The only part of eval/run that knows a command line and prints.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/run/kv_session.h"
#include "eval/run/run_file.h"
#include "eval/run/settings.h"

namespace kvasir::eval {

inline constexpr int kFailed = 1;  ///< exit code: the run failed
inline constexpr int kUsage = 2;   ///< exit code: the command line is wrong

/// A number within [low, high]; CLI::Range lets NaN pass.
CLI::Validator number_between(double low, double high);

class EvalCommand {
 public:
  /// `kind` is the word after `kvasir eval`; `model` the default of -m.
  EvalCommand(std::string kind, const std::string& about, const std::string& model);

  /// Where the command adds its own flags before parse().
  CLI::App& app() { return app_; }

  /// Parses the words after the kind. An exit code if the program is to end: 0 after --help, 2
  /// after one line of complaint on stderr.
  std::optional<int> parse(std::vector<std::string> args);

  /// One line on stderr; returns `code`.
  int complain(const std::string& message, int code) const;

  /// The reference and what is compared with it. Those of --methods and --formats stand here after
  /// load() only:
  /// budgets depend on the model.
  const std::vector<Setting>& settings() const { return settings_; }
  /// Whether there is anything beside the reference; known after parse().
  bool compares() const { return settings_.size() > 1 || methods_ > 0 || formats_; }
  int32_t n_threads() const { return n_threads_; }
  int32_t n_ubatch() const { return n_ubatch_; }
  const std::string& json_path() const { return json_path_; }
  const std::string& html_path() const { return html_path_; }
  const std::string& model_name() const { return model_; }

  /// Finds and loads the model onto the device. Fails with one line.
  Result<std::shared_ptr<llama_model>> load();
  /// The file of the model; after load().
  const std::string& model_path() const { return model_path_; }

  /// Parameters of sessions of this command with `n_ctx` cells.
  SessionParams session_params(int32_t n_ctx) const;

  /// What makes two runs the same, without the kind's own part; after load().
  Json identity() const;
  /// The fields that every result has; after load().
  Json head(double seconds) const;

  /// Opens or continues the run that --json names, does the work, prints and writes its result;
  /// after load(). `result_of` also gets the seconds of all of it, those before an interruption
  /// too. Returns an exit code, after a line on stderr if it is not 0.
  int carry_out(const Json& identity, const std::function<Result<void>(RunFile& file)>& work,
                const std::function<Json(const RunFile& file, double seconds)>& result_of,
                const std::function<void(const Json& result)>& print) const;

  /// How a page is made; set once by the program. Without it --html is refused.
  using WritePage = Result<void> (*)(const std::string& path, std::span<const Json> results,
                                     const std::vector<std::string>& names);
  /// Whether a result is one as the schema says; set beside it.
  using CheckResult = Result<void> (*)(const Json& result, std::string_view name);
  static void set_writers(WritePage write_page, CheckResult check_result);

 private:
  Result<void> check_outputs() const;
  Result<void> add_methods(const llama_model* model);
  Result<void> add_settings(const char* flag, Result<std::vector<Setting>> settings);

  std::string kind_;
  CLI::App app_;
  std::string command_;
  std::string model_;
  std::string model_path_;
  std::string description_;
  int32_t n_threads_ = 2;
  int32_t n_ubatch_ = 512;
  std::string json_path_;
  std::string html_path_;
  bool verbose_ = false;
  int32_t methods_ = 0;  // --methods; 0: not given
  bool formats_ = false;
  SettingRequest request_;
  std::vector<Setting> settings_;
  std::string began_;
};

}  // namespace kvasir::eval
