// Arrays as NumPy reads them (.npy, format 1.0), written row by row.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>

#include "base/result.h"

namespace kvasir::eval {

class NpyWriter {
 public:
  /// A file of `rows` x `columns` numbers; of `rows` numbers if columns is 0. `type` is NumPy's
  /// word: "<f4" or "<i4". Fails with one line.
  static Result<NpyWriter> create(const std::string& path, const std::string& type, int64_t rows,
                                  int64_t columns);
  void add(std::span<const float> row);
  void add(std::span<const int32_t> row);
  /// Fails with one line if anything could not be written.
  Result<void> close();

 private:
  std::string path_;
  std::ofstream out_;
};

}  // namespace kvasir::eval
