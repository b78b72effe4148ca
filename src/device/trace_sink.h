// The one trace file of the process.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "cache/trace.h"

namespace kvasir::device {

/// Thread-safe. Writing without an open file does nothing.
class TraceSink {
 public:
  /// Opens `path`; empty closes. Fails where TraceWriter::open does.
  Result<void> open(const std::string& path);
  /// Writes a line. A failure is logged once and ends the trace.
  void write(const StepRecord& record);

 private:
  std::mutex mutex_;
  std::optional<TraceWriter> writer_;
};

TraceSink& trace_sink();

}  // namespace kvasir::device
