#include "eval/fidelity/floor.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "eval/session.h"
#include "eval/statistics.h"
#include "eval/text.h"

namespace kvasir::eval {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kText = "gpl";  // on every Debian system
constexpr int32_t kTokens = 512;
constexpr int32_t kPrefix = 384;  // the rest is given one by one, as fidelity runs do

struct Path {
  bool flash_attention;
  int32_t n_ubatch;
};
constexpr std::array<Path, 3> kPaths = {{{true, 512}, {false, 512}, {true, 64}}};

// The file of the floor of this very model file.
fs::path stored_at(const std::string& path) {
  std::error_code ignored;
  const auto size = fs::file_size(path, ignored);
  const auto changed = fs::last_write_time(path, ignored).time_since_epoch().count();
  return cache_folder() / "floors" /
         (fs::path(path).stem().string() + "-" + std::to_string(size) + "-" +
          std::to_string(changed) + ".json");
}

bool read_stored(const fs::path& path, Floor& floor) {
  std::ifstream in(path);
  const Json json = Json::parse(in, nullptr, false);
  if (!json.is_object()) return false;
  try {
    floor = {json.at("kl"), json.at("flash_attention_off"), json.at("ubatch_64"), json.at("tokens"),
             json.at("text")};
  } catch (const Json::exception&) {
    return false;  // of another version: measured anew
  }
  return true;
}

void store(const fs::path& path, const Floor& floor) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  const fs::path fresh = path.string() + ".new";
  std::ofstream(fresh) << Json{
      {"kl", floor.kl},
      {"flash_attention_off", floor.flash_attention_off},
      {"ubatch_64", floor.ubatch_64},
      {"tokens", floor.tokens},
      {"text", floor.text}}.dump(1);
  fs::rename(fresh, path, ignored);
}

Result<std::vector<Session>> open_paths(const std::string& path, int32_t n_threads) {
  auto model = load_model(path, nullptr);
  if (!model) return Error{model.error()};
  std::vector<Session> sessions;
  for (const Path& one : kPaths) {
    SessionParams params;
    params.n_ctx = kTokens;
    params.n_threads = n_threads;
    params.n_ubatch = one.n_ubatch;
    params.flash_attention =
        one.flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    auto session = Session::open(model.value(), params);
    if (!session) return Error{session.error()};
    sessions.push_back(std::move(session.value()));
  }
  return sessions;
}

Result<Floor> measure(const std::string& path, int32_t n_threads) {
  auto sessions = open_paths(path, n_threads);
  if (!sessions) return Error{sessions.error()};
  auto tokens = first_tokens(sessions.value()[0].vocab(), kText, kTokens);
  if (!tokens) return Error{tokens.error()};
  const std::span<const llama_token> all(tokens.value());
  std::array<Divergence, kPaths.size()> from_first;
  for (int32_t at = 0; at + 1 < kTokens; at = std::max(at + 1, kPrefix)) {
    const int32_t n = at == 0 ? kPrefix : 1;
    std::vector<float> reference;
    for (size_t i = 0; i < kPaths.size(); ++i) {
      Session& session = sessions.value()[i];
      auto done = session.decode(all.subspan(static_cast<size_t>(at), static_cast<size_t>(n)), at,
                                 Outputs::kLast);
      if (!done) return Error{done.error()};
      const auto row = session.logits();
      if (i == 0) reference.assign(row.begin(), row.end());
      from_first[i].add(reference, summarize(reference), row, summarize(row),
                        all[static_cast<size_t>(at) + static_cast<size_t>(n)]);
    }
  }
  Floor floor;
  floor.flash_attention_off = from_first[1].kl_mean();
  floor.ubatch_64 = from_first[2].kl_mean();
  floor.kl = std::max(floor.flash_attention_off, floor.ubatch_64);
  floor.tokens = static_cast<int32_t>(from_first[1].count());
  floor.text = kText;
  return floor;
}

}  // namespace

Result<Floor> floor_of(const std::string& path, int32_t n_threads) {
  Floor floor;
  const fs::path stored = stored_at(path);
  if (read_stored(stored, floor)) return floor;
  auto measured = measure(path, n_threads);
  if (measured) store(stored, measured.value());
  return measured;
}

}  // namespace kvasir::eval
