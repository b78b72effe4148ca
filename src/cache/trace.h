// The trace file of --kv-trace: one JSON object a line for each step of each stream.
//
//   {"step":7,"stream":0,"pos":519,"token":284,"c":0.93,"entropy":0.21,"margin":3.4,"p1":0.95,
//    "budget":128,"live":{"min":128,"mean":128,"max":128},"bytes":{"f16":5898240},"evicted":30}
//
// (one line in the file). null stands for: token, not known; c, entropy, margin and p1, no logits
// were seen; budget, prefill or a policy without one. Invalid logits (NaN, nothing finite) give c 0
// with entropy, margin and p1 null. JSON knows no infinity: where no second token has a finite
// logit, margin is null beside a c that is not. Numbers read back as the same value.
//
// A line goes out in one write(2) to a descriptor opened for appending, so a process that ends
// leaves complete lines and several writers of one file do not mix inside a line. SIGKILL alone can
// cut the last line, where it crosses a page of the file: the kernel copies page by page. An
// existing file is continued, on a line of its own. Thread safety: one thread at a time for each
// writer.
#pragma once

#include <string>

#include "base/result.h"
#include "cache/step_record.h"

namespace kvasir {

class TraceWriter {
 public:
  /// Opens `path` for appending and creates it where it does not exist.
  /// Fails with one line that names --kv-trace, the path and the system's reason.
  static Result<TraceWriter> open(const std::string& path);

  /// Whether open(path) would work. Changes no file and leaves none behind.
  static Result<void> check(const std::string& path);

  TraceWriter(TraceWriter&& other) noexcept;
  TraceWriter& operator=(TraceWriter&& other) noexcept;
  ~TraceWriter();

  /// Appends one line. Allocates nothing unless it fails. The first failure (a full disk) is
  /// returned and ends the trace: later calls write nothing and succeed.
  Result<void> write(const StepRecord& record);

 private:
  TraceWriter(std::string path, int fd);

  std::string path_;
  int fd_ = -1;  // -1: closed after a failure, or moved from
};

}  // namespace kvasir
