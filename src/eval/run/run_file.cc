#include "eval/run/run_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

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
    if (a.at(key) != value)
      return key + " is " + dump_json(a.at(key)) + ", not " + dump_json(value);
  }
  return "fields differ";
}

bool is_entry(const Json& line) {
  return line.contains("key") && line["key"].is_string() && line.contains("entry") &&
         line["entry"].is_structured() && line.contains("seconds") && line["seconds"].is_number();
}

}  // namespace

std::string dump_json(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Result<RunFile> RunFile::open(const std::string& path, const Json& identity) {
  RunFile file;
  file.path_ = path;
  if (path.empty()) return file;
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(path, ignored))) {
    return Error{path + " exists and is not overwritten; name another file or remove it"};
  }
  auto locked = file.lock();
  if (!locked) return Error{locked.error()};
  auto read = file.read_partial(identity);
  if (!read) return Error{read.error()};
  return file;
}

// Makes the partial file where it is missing and keeps other processes off it.
Result<void> RunFile::lock() {
  const std::string partial = partial_of(path_);
  const int fd = ::open(partial.c_str(), O_RDWR | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0644);
  if (fd < 0) return cannot("write", partial);
  lock_ = std::shared_ptr<void>(nullptr, [fd](void*) { ::close(fd); });
  struct stat found;
  if (::fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) {
    return Error{partial + " is no regular file; remove it or name another file"};
  }
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return Error{"another run is writing " + path_ + "; wait for it or name another file"};
  }
  return {};
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
    if (!json.is_object() || (first ? !json.contains("run") : !is_entry(json))) {
      return Error{partial + ":" + std::to_string(number) +
                   ": not a line of a run; remove the file"};
    }
    if (first && dump_json(json.at("run")) != dump_json(identity)) {
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
  out << dump_json(line) << "\n";
  out.close();
  if (!out) return cannot("write", partial_of(path_));
  return {};
}

const Json* RunFile::find(const std::string& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second;
}

Result<void> RunFile::add(const std::string& key, Json entry, double seconds) {
  entry = Json::parse(dump_json(entry));  // as it will be read back
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
    out << dump_json(result, 1) << "\n";
    out.close();
    if (!out) {
      const Error error = cannot("write", fresh);
      std::remove(fresh.c_str());
      return error;
    }
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
