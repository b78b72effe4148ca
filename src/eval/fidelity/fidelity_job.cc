#include "eval/fidelity/fidelity_job.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "base/fnv1a.h"
#include "eval/fidelity/fidelity_json.h"
#include "eval/text.h"

namespace kvasir::eval {
namespace {

constexpr int64_t kMostReferenceBytes = int64_t{8} << 30;

// Which text, in one number.
std::string digest(std::span<const llama_token> tokens) {
  const uint64_t hash = fnv1a({reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()});
  char text[24];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

// The name of a setting as that of a file.
std::string file_name(const std::string& setting) {
  std::string name = setting;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == ' '; }, '_');
  return name;
}

// Runs `work` with a row sink that dumps under `name` where --dump asks for it.
template <typename Work>
auto with_dump(bool wanted, Result<NpyWriter> dump, Work work) -> decltype(work(OnRow{})) {
  if (!wanted) return work(OnRow{});
  if (!dump) return Error{dump.error()};
  auto done = work([&](std::span<const float> row) { dump.value().add(row); });
  if (!done) return done;
  auto closed = dump.value().close();
  if (!closed) return Error{closed.error()};
  return done;
}

}  // namespace

Result<void> FidelityJob::prepare() {
  auto model = command_.load();
  if (!model) return Error{model.error()};
  model_ = std::move(model.value());
  auto tokens = first_tokens(llama_model_get_vocab(model_.get()), flags_.text, flags_.tokens);
  if (!tokens) return Error{tokens.error()};
  plan_.tokens = std::move(tokens.value());
  plan_.prefix = flags_.prefix > 0 ? flags_.prefix : std::max(1, flags_.tokens / 2);
  if (plan_.prefix >= flags_.tokens) {
    return Error{"--prefix " + std::to_string(plan_.prefix) + ": expected less than --tokens " +
                 std::to_string(flags_.tokens)};
  }
  digest_ = digest(plan_.tokens);
  if (!flags_.dump.empty()) {
    auto names = check_dump_names();
    if (!names) return names;
    std::error_code failed;
    std::filesystem::create_directories(flags_.dump, failed);
    if (failed) return Error{"--dump " + flags_.dump + ": " + failed.message()};
  }
  return {};
}

Json FidelityJob::identity() const {
  Json json = command_.identity();
  json["text"] = digest_;
  json["tokens"] = flags_.tokens;
  json["prefix"] = plan_.prefix;
  json["against"] = flags_.against;
  json["reference"] = flags_.reference.empty() ? "" : "top " + std::to_string(flags_.top_k);
  return json;
}

std::string FidelityJob::reference_identity() const {
  Json json = command_.identity();
  json.erase("settings");
  json["text"] = digest_;
  json["tokens"] = flags_.tokens;
  json["prefix"] = plan_.prefix;
  json["against"] = flags_.against;
  return dump_json(json);
}

Result<KvSession> FidelityJob::open(const CacheOptions& options) {
  return KvSession::open(model_, options,
                         command_.session_params(static_cast<int32_t>(plan_.tokens.size())));
}

Result<void> FidelityJob::check_dump_names() const {
  std::set<std::string> names = {"next_tokens"};
  for (const Setting& setting : command_.settings()) {
    if (names.insert(file_name(setting.name)).second) continue;
    return Error{"--dump: setting '" + setting.name + "' would write " + file_name(setting.name) +
                 ".npy twice; name it otherwise"};
  }
  return {};
}

Result<NpyWriter> FidelityJob::dump_of(const std::string& name) const {
  return NpyWriter::create(flags_.dump + "/" + file_name(name) + ".npy", "<f4", plan_.n_rows(),
                           llama_vocab_n_tokens(llama_model_get_vocab(model_.get())));
}

Result<FidelityJob::ReferenceSession> FidelityJob::open_reference() {
  ReferenceSession reference;
  if (flags_.against == "full") {
    auto kv = open(command_.settings().front().options);
    if (!kv) return Error{kv.error()};
    reference.kv = std::make_unique<KvSession>(std::move(kv.value()));
    return reference;
  }
  auto model = load_model(command_.model_path(), nullptr);
  if (!model) return Error{model.error()};
  auto session = Session::open(model.value(),
                               command_.session_params(static_cast<int32_t>(plan_.tokens.size())));
  if (!session) return Error{session.error()};
  reference.stock = std::make_unique<Session>(std::move(session.value()));
  return reference;
}

// Kept as an entry of the run, since a run that goes on may not need the reference again.
Result<void> FidelityJob::note_reference(const WholeRows& rows, const std::vector<double>& step_ms,
                                         RunFile& file) const {
  const std::string& name = command_.settings().front().name;
  if (file.find(name) != nullptr) return {};
  double seconds = 0;
  for (const double ms : step_ms) seconds += ms / 1000;
  return file.add(name, fidelity_reference(name, rows, step_ms, bytes_full_), seconds);
}

Result<void> FidelityJob::find_reference(RunFile& file, Progress& progress) {
  const bool stored = !flags_.reference.empty() && std::filesystem::exists(flags_.reference);
  if (stored) {
    auto read = read_top_rows(flags_.reference, reference_identity());
    if (!read) return Error{"--reference " + read.error()};
    if (read.value().n_rows() != plan_.n_rows()) {
      return Error{"--reference " + flags_.reference + " has another number of rows"};
    }
    const size_t top_k = read.value().rows.front().ids.size();
    if (top_k != static_cast<size_t>(std::min(flags_.top_k, read.value().n_vocab))) {
      return Error{"--reference " + flags_.reference + " holds the top " + std::to_string(top_k) +
                   "; give --top-k " + std::to_string(top_k)};
    }
    bytes_full_ = read.value().bytes_full;
    reference_ = std::make_unique<TopRows>(std::move(read.value()));
    progress.advance(plan_.n_rows(), "settings");
    return {};
  }
  auto opened = open_reference();
  if (!opened) return Error{opened.error()};
  Session& session = opened.value().session();
  const int64_t bytes = int64_t{4} * plan_.n_rows() * session.n_vocab();
  if (bytes > kMostReferenceBytes) {
    return Error{"--tokens " + std::to_string(flags_.tokens) +
                 ": the reference's logits would take " + std::to_string(bytes >> 20) +
                 " MiB, at most " + std::to_string(kMostReferenceBytes >> 20) +
                 " are allowed; use fewer tokens or a longer --prefix"};
  }
  const bool dumped = !flags_.dump.empty();
  std::vector<double> step_ms;
  auto rows = with_dump(dumped, dumped ? dump_of("full") : Error{""}, [&](const OnRow& on_row) {
    return collect_rows(
        session, plan_, on_row, [&] { progress.advance(1, "the reference"); }, &step_ms);
  });
  if (!rows) return Error{"the reference: " + rows.error()};
  bytes_full_ = opened.value().bytes();
  auto noted = note_reference(rows.value(), step_ms, file);
  if (!noted) return noted;
  if (!flags_.reference.empty()) {
    auto top = top_rows(rows.value(), std::min(flags_.top_k, session.n_vocab()));
    top.bytes_full = bytes_full_;
    auto written = write_top_rows(flags_.reference, reference_identity(), top);
    if (!written) return Error{"--reference: " + written.error()};
    // Compared with what was stored, so that a run that goes on, or another, finds the same.
    reference_ = std::make_unique<TopRows>(std::move(top));
    return {};
  }
  reference_ = std::make_unique<WholeRows>(std::move(rows.value()));
  return {};
}

Result<void> FidelityJob::run_one(const Setting& setting, RunFile& file, Progress& progress) {
  auto kv = open(setting.options);
  if (!kv) return Error{"setting " + setting.name + ": " + kv.error()};
  const bool dumped = !flags_.dump.empty();
  auto run =
      with_dump(dumped, dumped ? dump_of(setting.name) : Error{""}, [&](const OnRow& on_row) {
        return run_fidelity(kv.value(), plan_, *reference_, on_row,
                            [&] { progress.advance(1, setting.name); });
      });
  if (!run) return Error{"setting " + setting.name + ": " + run.error()};
  double seconds = 0;
  for (const FidelityStep& step : run.value().steps) seconds += step.ms / 1000;
  return file.add(setting.name,
                  fidelity_set(setting, plan_, run.value(), reference_->is_exact(), bytes_full_),
                  seconds);
}

Result<void> FidelityJob::run(RunFile& file) {
  std::fprintf(stderr, "kvasir eval fidelity: the model's floor\n");
  auto floor = floor_of(command_.model_path(), command_.n_threads());
  if (!floor) return Error{"floor: " + floor.error()};
  floor_ = floor.value();
  std::vector<const Setting*> open;
  for (size_t i = 1; i < command_.settings().size(); ++i) {
    const Setting& setting = command_.settings()[i];
    if (file.find(setting.name) == nullptr) open.push_back(&setting);
  }
  if (open.empty()) return {};
  Progress progress(static_cast<double>(plan_.n_rows()) * static_cast<double>(open.size() + 1));
  auto found = find_reference(file, progress);
  if (!found) return found;
  if (!flags_.dump.empty()) {
    auto next = NpyWriter::create(flags_.dump + "/next_tokens.npy", "<i4", plan_.n_rows(), 0);
    if (!next) return Error{next.error()};
    next.value().add(
        std::span<const int32_t>(plan_.tokens).subspan(static_cast<size_t>(plan_.prefix)));
    auto closed = next.value().close();
    if (!closed) return closed;
  }
  for (const Setting* setting : open) {
    auto done = run_one(*setting, file, progress);
    if (!done) return done;
  }
  return {};
}

Json FidelityJob::sets(const RunFile& file) const {
  Json sets = Json::array();
  for (size_t i = 1; i < command_.settings().size(); ++i) {
    const Json* set = file.find(command_.settings()[i].name);
    if (set != nullptr) sets.push_back(*set);
  }
  return sets;
}

Json FidelityJob::result(const RunFile& file, double seconds) const {
  Json json = command_.head(seconds);
  json["text"] = {{"name", flags_.text}, {"tokens", flags_.tokens}, {"prefix", plan_.prefix}};
  json["floor"] = {{"kl", floor_.kl},
                   {"flash_attention_off", floor_.flash_attention_off},
                   {"ubatch_64", floor_.ubatch_64},
                   {"tokens", floor_.tokens},
                   {"text", floor_.text}};
  json["protocol"] = {{"against", flags_.against}};
  const Json* reference = file.find(command_.settings().front().name);
  if (reference != nullptr) json["reference"] = *reference;
  json["sets"] = sets(file);
  if (json["sets"].size() == 1) {
    for (const char* field : {"kl", "same_top", "ppl", "tokens", "kv", "curve"}) {
      json[field] = json["sets"][0][field];
    }
  }
  return json;
}

}  // namespace kvasir::eval
