// The file of stored reference rows: a line of text, then binary little-endian rows.
//
//   kvasir-reference 1 ROWS TOP_K VOCAB BYTES_FULL IDENTITY\n
//   rows of: i32 next, f32 nll_next, f32 log_rest, TOP_K x i32 id, TOP_K x f32 log-probability
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "eval/fidelity/reference_rows.h"

namespace kvasir::eval {
namespace {

constexpr const char* kMagic = "kvasir-reference";
constexpr int kVersion = 1;
constexpr int64_t kMaxRows = int64_t{1} << 24;
constexpr int64_t kMaxVocab = int64_t{1} << 24;
constexpr size_t kMaxHeader = 4096;

template <typename T>
void put(std::ostream& out, const T& value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <typename T>
bool get(std::istream& in, T& value) {
  in.read(reinterpret_cast<char*>(&value), sizeof(T));
  return static_cast<bool>(in);
}

bool read_row(std::istream& in, int32_t n_vocab, TopRows::Row& row) {
  if (!get(in, row.next) || !get(in, row.nll_next) || !get(in, row.log_rest)) return false;
  for (int32_t& id : row.ids) {
    if (!get(in, id) || id < 0 || id >= n_vocab) return false;
  }
  for (float& x : row.log_probability) {
    if (!get(in, x) || !(x <= 0.001F) || !std::isfinite(x)) return false;
  }
  return row.next >= 0 && row.next < n_vocab && row.nll_next >= -0.001F && row.log_rest <= 0.001F;
}

}  // namespace

Result<void> write_top_rows(const std::string& path, const std::string& identity,
                            const TopRows& rows) {
  const std::string fresh = path + ".new";
  std::ofstream out(fresh, std::ios::binary);
  out << kMagic << ' ' << kVersion << ' ' << rows.rows.size() << ' '
      << (rows.rows.empty() ? 0 : rows.rows[0].ids.size()) << ' ' << rows.n_vocab << ' '
      << rows.bytes_full << ' ' << identity << '\n';
  for (const TopRows::Row& row : rows.rows) {
    put(out, row.next);
    put(out, row.nll_next);
    put(out, row.log_rest);
    for (const int32_t id : row.ids) put(out, id);
    for (const float x : row.log_probability) put(out, x);
  }
  out.close();
  if (out && std::rename(fresh.c_str(), path.c_str()) == 0) return {};
  const Error error{"cannot write " + path + ": " + std::strerror(errno)};
  std::remove(fresh.c_str());
  return error;
}

Result<TopRows> read_top_rows(const std::string& path, const std::string& identity) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{"cannot read " + path + ": " + std::strerror(errno)};
  std::string header(kMaxHeader, '\0');
  in.getline(header.data(), static_cast<std::streamsize>(kMaxHeader));
  if (!in) return Error{path + ": not a file of reference logits"};
  std::istringstream words(header.c_str());
  std::string magic, found;
  int version = 0;
  int64_t n_rows = 0, top_k = 0, n_vocab = 0, bytes_full = 0;
  words >> magic >> version >> n_rows >> top_k >> n_vocab >> bytes_full;
  words.get();
  std::getline(words, found);
  if (magic != kMagic || version != kVersion || n_rows < 1 || n_rows > kMaxRows || n_vocab < 1 ||
      n_vocab > kMaxVocab || top_k < 1 || top_k > n_vocab || bytes_full < 0) {
    return Error{path + ": not a file of reference logits of this version"};
  }
  if (found != identity) {
    return Error{path + " holds the reference of another run: '" + found + "', this one is '" +
                 identity + "'; name another file"};
  }
  const int64_t expected = in.tellg() + std::streamoff(n_rows * (12 + 8 * top_k));
  in.seekg(0, std::ios::end);
  if (in.tellg() != std::streamoff(expected)) {
    return Error{path + ": damaged: it has " + std::to_string(in.tellg()) + " bytes, " +
                 std::to_string(expected) + " are expected"};
  }
  in.seekg(-std::streamoff(n_rows * (12 + 8 * top_k)), std::ios::end);
  TopRows top;
  top.n_vocab = static_cast<int32_t>(n_vocab);
  top.bytes_full = bytes_full;
  for (int64_t i = 0; i < n_rows; ++i) {
    TopRows::Row row;
    row.ids.resize(static_cast<size_t>(top_k));
    row.log_probability.resize(static_cast<size_t>(top_k));
    if (!read_row(in, top.n_vocab, row)) {
      return Error{path + ": damaged in row " + std::to_string(i) + " of " +
                   std::to_string(n_rows)};
    }
    top.rows.push_back(std::move(row));
  }
  return top;
}

}  // namespace kvasir::eval
