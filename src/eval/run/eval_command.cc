#include "eval/run/eval_command.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "device/device.h"
#include "eval/machine.h"
#include "eval/text.h"
#include "kvasir/kvasir.h"

namespace kvasir::eval {
namespace {

constexpr int kSchema = 1;

EvalCommand::WritePage page_writer = nullptr;

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

std::string kv_footer() {
  return "The reference is the same model with Kvasir's f16 cache and every token kept.\n"
         "--kv-* flags given here hold for every setting (`kvasir --help` lists them).";
}

}  // namespace

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
  std::error_code ignored;
  for (const std::string& path : {json_path_, html_path_}) {
    if (!path.empty() && std::filesystem::exists(path, ignored)) {
      return complain(path + " exists and is not overwritten; name another file or remove it",
                      kUsage);
    }
  }
  if (!html_path_.empty() && page_writer == nullptr) {
    return complain("--html is not available here", kUsage);
  }
  auto settings = make_settings(request_);
  if (!settings) return complain(settings.error(), kUsage);
  settings_ = std::move(settings.value());
  set_llama_log(verbose_);
  return std::nullopt;
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
  return model;
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
  return {{"schema", kSchema},
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
}

int EvalCommand::finish(RunFile& file, const Json& result) const {
  auto written = file.finish(result);
  if (!written) return complain(written.error(), kFailed);
  if (html_path_.empty()) return 0;
  auto page = page_writer(html_path_, std::span(&result, 1), {kind_});
  return page ? 0 : complain(page.error(), kFailed);
}

void EvalCommand::set_page_writer(WritePage write_page) { page_writer = write_page; }

}  // namespace kvasir::eval
