#include "eval/fidelity/npy.h"

#include <cerrno>
#include <cstring>

namespace kvasir::eval {

Result<NpyWriter> NpyWriter::create(const std::string& path, const std::string& type, int64_t rows,
                                    int64_t columns) {
  NpyWriter writer;
  writer.path_ = path;
  writer.out_.open(path, std::ios::binary);
  std::string shape = std::to_string(rows) + ",";
  if (columns != 0) shape.append(std::to_string(columns));
  std::string header = "{'descr': '";
  header.append(type).append("', 'fortran_order': False, 'shape': (").append(shape).append("), }");
  constexpr size_t kPreamble = 10, kAlign = 64;
  header.append(kAlign - (kPreamble + header.size() + 1) % kAlign, ' ');
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  writer.out_ << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(length & 0xFF)
              << static_cast<char>(length >> 8) << header;
  if (!writer.out_) return Error{"cannot write " + path + ": " + std::strerror(errno)};
  return writer;
}

void NpyWriter::add(std::span<const float> row) {
  out_.write(reinterpret_cast<const char*>(row.data()),
             static_cast<std::streamsize>(row.size_bytes()));
}

void NpyWriter::add(std::span<const int32_t> row) {
  out_.write(reinterpret_cast<const char*>(row.data()),
             static_cast<std::streamsize>(row.size_bytes()));
}

Result<void> NpyWriter::close() {
  out_.close();
  if (!out_) return Error{"cannot write " + path_ + ": " + std::strerror(errno)};
  return {};
}

}  // namespace kvasir::eval
