#include "eval/run/run_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace kvasir::eval {
namespace {

namespace fs = std::filesystem;

std::string partial_of(const std::string& path) { return path + ".partial"; }

Error cannot(const std::string& what, const std::string& path) {
  return Error{"cannot " + what + " " + path + ": " + std::strerror(errno)};
}

// The first difference between two identities, for people.
std::string difference(const Json& a, const Json& b) {
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key)) return key + " is missing";
    if (a.at(key) != value) return key + " is " + a.at(key).dump() + ", not " + value.dump();
  }
  return "fields differ";
}

}  // namespace

Result<RunFile> RunFile::open(const std::string& path, const Json& identity) {
  RunFile file;
  file.path_ = path;
  if (path.empty()) return file;
  std::error_code ignored;
  if (fs::exists(path, ignored)) {
    return Error{path + " exists and is not overwritten; name another file or remove it"};
  }
  if (fs::exists(partial_of(path), ignored)) {
    auto read = file.read_partial(identity);
    if (!read) return Error{read.error()};
    return file;
  }
  auto begun = file.append({{"run", identity}});
  if (!begun) return Error{begun.error()};
  return file;
}

// A line that was cut by an interruption can only be the last: it is dropped.
Result<void> RunFile::read_partial(const Json& identity) {
  const std::string partial = partial_of(path_);
  std::ifstream in(partial, std::ios::binary);
  std::string line, whole;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (in.eof()) break;  // no newline: cut
    const Json json = Json::parse(line, nullptr, false);
    const bool first = number == 1;
    if (!json.is_object() ||
        (first ? !json.contains("run")
               : !json.contains("key") || !json["key"].is_string() || !json.contains("entry"))) {
      return Error{partial + ":" + std::to_string(number) +
                   ": not a line of a run; remove the file"};
    }
    if (first && json.at("run") != identity) {
      return Error{partial + " belongs to another run (" + difference(json.at("run"), identity) +
                   "); finish that one, or remove it, or name another file"};
    }
    if (!first) {
      entries_[json.at("key").get<std::string>()] = json.at("entry");
      seconds_before_ += json.value("seconds", 0.0);
    }
    whole += line + "\n";
  }
  std::error_code failed;
  fs::resize_file(partial, whole.size(), failed);
  if (failed) return Error{"cannot continue " + partial + ": " + failed.message()};
  if (whole.empty()) return append({{"run", identity}});
  return {};
}

Result<void> RunFile::append(const Json& line) {
  std::ofstream out(partial_of(path_), std::ios::binary | std::ios::app);
  out << line.dump() << "\n";
  out.close();
  if (!out) return cannot("write", partial_of(path_));
  return {};
}

const Json* RunFile::find(const std::string& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second;
}

Result<void> RunFile::add(const std::string& key, Json entry, double seconds) {
  if (!path_.empty()) {
    auto added = append({{"key", key}, {"seconds", seconds}, {"entry", entry}});
    if (!added) return added;
  }
  entries_[key] = std::move(entry);
  return {};
}

Result<void> RunFile::finish(const Json& result) {
  if (path_.empty()) return {};
  const std::string fresh = path_ + ".new";
  {
    std::ofstream out(fresh, std::ios::binary);
    out << result.dump(1) << "\n";
    out.close();
    if (!out) return cannot("write", fresh);
  }
  // link(2), unlike rename(2), fails where a finished result has appeared meanwhile.
  std::error_code failed;
  fs::create_hard_link(fresh, path_, failed);
  std::error_code ignored;
  fs::remove(fresh, ignored);
  if (failed) return Error{"cannot write " + path_ + ": " + failed.message()};
  fs::remove(partial_of(path_), ignored);
  return {};
}

}  // namespace kvasir::eval
