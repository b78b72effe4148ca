#include "eval/run/eval_command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "device/device.h"
#include "eval/machine.h"
#include "eval/run/methods.h"
#include "eval/text.h"
#include "kvasir/kvasir.h"

namespace kvasir::eval {
namespace {

constexpr int kSchema = 1;

EvalCommand::WritePage page_writer = nullptr;
EvalCommand::CheckResult result_check = nullptr;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) {
    const bool plain = word.find_first_of(" \t\"'") == std::string::npos && !word.empty();
    text += (text.empty() ? "" : " ") + (plain ? word : "\"" + word + "\"");
  }
  return text;
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

bool nothing_answered(const Json& result) {
  if (!result.contains("samples")) return false;
  const Json& samples = result.at("samples");
  return std::none_of(samples.begin(), samples.end(),
                      [](const Json& sample) { return sample.at("status") == "ok"; });
}

std::string kv_footer() {
  return "The reference is the same model with Kvasir's f16 cache and every token kept.\n"
         "--kv-* flags given here hold for every setting (`kvasir --help` lists them).";
}

}  // namespace

CLI::Validator number_between(double low, double high) {
  char range[64];
  std::snprintf(range, sizeof(range), "[%g - %g]", low, high);
  const std::string name = range;
  return {[low, high, name](std::string& text) -> std::string {
            double value = 0;
            const bool ok = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
            return ok ? std::string() : "Value " + text + " not in range " + name;
          },
          name};
}

EvalCommand::EvalCommand(std::string kind, const std::string& about, const std::string& model)
    : kind_(std::move(kind)), app_(about, "kvasir eval " + kind_), model_(model) {
  const CLI::Range positive(1, 1 << 20);
  app_.add_option("-m,--model", model_, "GGUF file or name of a model")->capture_default_str();
  app_.add_option("-t,--threads", n_threads_)->check(positive)->capture_default_str();
  app_.add_option("--ubatch-size", n_ubatch_, "tokens of one graph")
      ->check(positive)
      ->capture_default_str();
  app_.add_option("--set", request_.sets,
                  "a setting: \"NAME: --kv-policy window --kv-budget 256\"; repeat for more");
  app_.add_option("--sweep", request_.sweeps,
                  "each setting once for each value: kv-tau=0.5,0.7,0.9");
  app_.add_option(
          "--methods", methods_,
          "a setting for each policy and format, all with the bytes of N f16 tokens a layer")
      ->check(CLI::Range(1, 1 << 20));
  app_.add_flag("--formats", formats_, "a setting for each format, every token kept");
  app_.add_option("--json", json_path_, "write the result here; a run that stopped goes on");
  app_.add_option("--html", html_path_, "write a page with plots here");
  app_.add_flag("-v,--verbose", verbose_, "llama.cpp's log");
  app_.footer(kv_footer());
}

int EvalCommand::complain(const std::string& message, int code) const {
  std::fprintf(stderr, "kvasir eval %s: %s\n", kind_.c_str(), message.c_str());
  return code;
}

std::optional<int> EvalCommand::parse(std::vector<std::string> args) {
  command_ = "eval " + kind_ + (args.empty() ? "" : " " + joined(args));
  began_ = now_utc();
  // Values of --set hold --kv-* words of their own: one argument each, so they are left alone.
  const size_t before = args.size();
  auto taken = take_flags(args, request_.base);
  if (!taken) return complain(taken.error(), kUsage);
  request_.base_given = args.size() != before;
  try {
    std::reverse(args.begin(), args.end());  // as CLI11 takes them
    app_.parse(args);
  } catch (const CLI::CallForHelp& help) {
    return app_.exit(help);
  } catch (const CLI::ParseError& error) {
    return complain(error.what(), kUsage);
  }
  auto writable = check_outputs();
  if (!writable) return complain(writable.error(), kUsage);
  if (!html_path_.empty() && page_writer == nullptr) {
    return complain("--html is not available here", kUsage);
  }
  SettingRequest asked = request_;
  // Flags of the cache are what --methods stand on; alone they would be one setting more.
  if ((methods_ > 0 || formats_) && asked.sets.empty() && asked.sweeps.empty())
    asked.base_given = false;
  auto settings = make_settings(asked);
  if (!settings) return complain(settings.error(), kUsage);
  settings_ = std::move(settings.value());
  set_llama_log(verbose_);
  return std::nullopt;
}

// What can be known of --json and --html before hours of work.
Result<void> EvalCommand::check_outputs() const {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!json_path_.empty() && json_path_ == html_path_) {
    return Error{"--json and --html name the same file, " + json_path_};
  }
  for (const std::string& path : {json_path_, html_path_}) {
    if (path.empty()) continue;
    if (fs::exists(fs::symlink_status(path, ignored))) {
      return Error{path + " exists and is not overwritten; name another file or remove it"};
    }
    const std::string probe = path + ".new";
    std::ofstream out(probe);
    out.close();
    const bool written = static_cast<bool>(out);
    fs::remove(probe, ignored);
    if (!written) return Error{"cannot write " + path};
  }
  return {};
}

Result<std::shared_ptr<llama_model>> EvalCommand::load() {
  auto path = find_model(model_);
  if (!path) return Error{path.error()};
  model_path_ = path.value();
  auto model = load_model(model_path_, device::register_device());
  if (!model) return Error{model.error()};
  char text[256] = "";
  llama_model_desc(model.value().get(), text, sizeof(text));
  description_ = text;
  auto added = add_methods(model.value().get());
  if (!added) return Error{added.error()};
  return model;
}

Result<void> EvalCommand::add_methods(const llama_model* model) {
  if (formats_) {
    auto added = add_settings("--formats", format_settings(request_.base));
    if (!added) return added;
  }
  if (methods_ == 0) return {};
  return add_settings("--methods", method_settings(methods_, row_geometry(model), request_.base));
}

Result<void> EvalCommand::add_settings(const char* flag, Result<std::vector<Setting>> settings) {
  if (!settings) return Error{settings.error()};
  for (Setting& setting : settings.value()) {
    const bool taken = std::any_of(settings_.begin(), settings_.end(),
                                   [&](const Setting& one) { return one.name == setting.name; });
    if (taken) {
      std::string reason = flag;
      reason.append(" has a setting named '").append(setting.name);
      return Error{reason.append("', which is there already; use another name or another run")};
    }
    settings_.push_back(std::move(setting));
  }
  return {};
}

SessionParams EvalCommand::session_params(int32_t n_ctx) const {
  SessionParams params;
  params.n_ctx = n_ctx;
  params.n_threads = n_threads_;
  params.n_ubatch = n_ubatch_;
  return params;
}

Json EvalCommand::identity() const {
  std::error_code ignored;
  Json settings = Json::array();
  for (const Setting& setting : settings_) settings.push_back({setting.name, setting.flags()});
  return {{"kind", kind_},
          {"kvasir", KVASIR_VERSION},
          {"model", std::filesystem::path(model_path_).filename().string()},
          {"model_bytes", std::filesystem::file_size(model_path_, ignored)},
          {"threads", n_threads_},
          {"ubatch", n_ubatch_},
          {"settings", settings}};
}

Json EvalCommand::head(double seconds) const {
  std::error_code ignored;
  Json settings = Json::array();
  for (const Setting& setting : settings_) {
    settings.push_back({{"name", setting.name}, {"flags", setting.flags()}});
  }
  Json head = {{"schema", kSchema},
               {"kind", kind_},
               {"kvasir", KVASIR_VERSION},
               {"command", command_},
               {"model",
                {{"name", model_},
                 {"file", std::filesystem::path(model_path_).filename().string()},
                 {"description", description_},
                 {"bytes", std::filesystem::file_size(model_path_, ignored)}}},
               {"machine",
                {{"cpu", cpu_name()}, {"threads", n_threads_}, {"kernels", kvasir_kernel_table()}}},
               {"began", began_},
               {"seconds", seconds},
               {"settings", settings}};
  if (methods_ > 0) head["methods"] = methods_;
  return head;
}

int EvalCommand::carry_out(
    const Json& identity, const std::function<Result<void>(RunFile& file)>& work,
    const std::function<Json(const RunFile& file, double seconds)>& result_of,
    const std::function<void(const Json& result)>& print) const {
  auto file = RunFile::open(json_path_, identity);
  if (!file) return complain(file.error(), kUsage);
  const auto began = std::chrono::steady_clock::now();
  auto done = work(file.value());
  if (!done) return complain(done.error(), kFailed);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
  Json result;
  try {  // entries of a partial file that somebody edited may be of any shape
    result = Json::parse(
        dump_json(result_of(file.value(), file.value().seconds_before() + taken.count())));
  } catch (const Json::exception& error) {
    return complain(json_path_ + ".partial is damaged (" + error.what() + "); remove it", kFailed);
  }
  auto checked = result_check == nullptr ? Result<void>{} : result_check(result, kind_);
  if (!checked) return complain("the result is not as it must be: " + checked.error(), kFailed);
  print(result);
  const bool unanswered = nothing_answered(result);
  auto written = file.value().finish(result);
  if (!written) return complain(written.error(), kFailed);
  if (unanswered) return complain("nothing was answered", kFailed);
  if (html_path_.empty()) return 0;
  auto page = page_writer(html_path_, std::span(&result, 1), {kind_});
  return page ? 0 : complain(page.error(), kFailed);
}

void EvalCommand::set_writers(WritePage write_page, CheckResult check_result) {
  page_writer = write_page;
  result_check = check_result;
}

}  // namespace kvasir::eval
