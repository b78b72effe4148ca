#include "cache/trace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstring>
#include <string_view>
#include <utility>

namespace kvasir {
namespace {

// Keys and punctuation take 150 bytes; 16 numbers of at most 24 bytes each.
constexpr size_t kLineBytes = 576;
constexpr int kAppend = O_WRONLY | O_APPEND | O_CLOEXEC;
constexpr mode_t kNewFile = 0666;  // less the umask

/// A line in the making, on the stack.
class Line {
 public:
  Line& text(std::string_view text) {
    assert(size_ + text.size() <= bytes_.size());
    std::memcpy(bytes_.data() + size_, text.data(), text.size());
    size_ += text.size();
    return *this;
  }
  template <typename Number>
  Line& number(Number value) {
    if constexpr (std::floating_point<Number>) {
      if (!std::isfinite(value)) return text("null");
    }
    const auto done = std::to_chars(bytes_.data() + size_, bytes_.data() + bytes_.size(), value);
    assert(done.ec == std::errc());
    size_ = static_cast<size_t>(done.ptr - bytes_.data());
    return *this;
  }
  template <typename Number>
  Line& number_if(bool known, Number value) {
    return known ? number(value) : text("null");
  }
  const char* data() const { return bytes_.data(); }
  size_t size() const { return size_; }

 private:
  std::array<char, kLineBytes> bytes_;
  size_t size_ = 0;
};

void format(const StepRecord& record, Line& line) {
  const Confidence& seen = record.confidence;
  const bool valid = record.has_confidence && seen.valid;
  line.text("{\"step\":").number(record.step);
  line.text(",\"stream\":").number(record.stream);
  line.text(",\"pos\":").number(record.pos);
  line.text(",\"token\":").number_if(record.token >= 0, record.token);
  line.text(",\"c\":").number_if(record.has_confidence, seen.c);
  line.text(",\"entropy\":").number_if(valid, seen.entropy);
  line.text(",\"margin\":").number_if(valid, seen.margin);
  line.text(",\"p1\":").number_if(valid, seen.p1);
  line.text(",\"budget\":").number_if(record.has_budget, record.budget);
  line.text(",\"live\":{\"min\":").number(record.live_min);
  line.text(",\"mean\":").number(record.live_mean);
  line.text(",\"max\":").number(record.live_max);
  line.text("},\"bytes\":{\"f16\":").number(record.bytes_f16);
  if (record.bytes_demoted > 0) line.text(",\"demoted\":").number(record.bytes_demoted);
  line.text("},\"evicted\":").number(record.evicted).text("}\n");
}

Error refused(const std::string& path, int code) {
  return Error{"--kv-trace " + path + ": cannot be opened for writing: " + std::strerror(code)};
}

// True if the regular file `path` ends inside a line, as a writer that was killed may leave it.
bool ends_inside_a_line(const std::string& path) {
  struct stat found;
  if (::stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode) || found.st_size == 0) {
    return false;
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char last = '\n';
  const ssize_t n = ::pread(fd, &last, 1, found.st_size - 1);
  ::close(fd);
  return n == 1 && last != '\n';
}

}  // namespace

TraceWriter::TraceWriter(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

TraceWriter::TraceWriter(TraceWriter&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

TraceWriter& TraceWriter::operator=(TraceWriter&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

TraceWriter::~TraceWriter() {
  if (fd_ >= 0) ::close(fd_);
}

Result<TraceWriter> TraceWriter::open(const std::string& path) {
  const int fd = ::open(path.c_str(), kAppend | O_CREAT, kNewFile);
  if (fd < 0) return refused(path, errno);
  if (ends_inside_a_line(path) && ::write(fd, "\n", 1) != 1) {
    const int code = errno;
    ::close(fd);
    return refused(path, code);
  }
  return TraceWriter(path, fd);
}

Result<void> TraceWriter::check(const std::string& path) {
  struct stat found;
  if (::stat(path.c_str(), &found) == 0) {
    if (S_ISDIR(found.st_mode)) return refused(path, EISDIR);
    // No open(): it would wait for the reader of a pipe, or give that reader an early end of file.
    if (::access(path.c_str(), W_OK) != 0) return refused(path, errno);
    return {};
  }
  const int fd = ::open(path.c_str(), kAppend | O_CREAT | O_EXCL, kNewFile);
  if (fd < 0) return refused(path, errno);
  ::close(fd);
  ::unlink(path.c_str());
  return {};
}

Result<void> TraceWriter::write(const StepRecord& record) {
  if (fd_ < 0) return {};
  Line line;
  format(record, line);
  ssize_t written = 0;
  do {
    written = ::write(fd_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);  // interrupted before the first byte
  if (written == static_cast<ssize_t>(line.size())) return {};
  const std::string reason = written < 0 ? std::strerror(errno) : "no space for a whole line";
  ::close(fd_);
  fd_ = -1;
  return Error{"--kv-trace " + path_ + ": writing failed, the trace ends here: " + reason};
}

}  // namespace kvasir
