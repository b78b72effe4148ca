#include "device/trace_sink.h"

#include <utility>

#include "ggml-impl.h"

namespace kvasir::device {

TraceSink& trace_sink() {
  static auto* instance = new TraceSink();  // outlives caches that end at exit
  return *instance;
}

Result<void> TraceSink::open(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  writer_.reset();
  if (path.empty()) return {};
  Result<TraceWriter> writer = TraceWriter::open(path);
  if (!writer) return Error{writer.error()};
  writer_ = std::move(writer.value());
  return {};
}

void TraceSink::write(const StepRecord& record) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!writer_) return;
  Result<void> written = writer_->write(record);
  if (!written) {
    GGML_LOG_ERROR("kvasir: %s\n", written.error().c_str());
    writer_.reset();
  }
}

}  // namespace kvasir::device
