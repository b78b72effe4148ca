// Files for tests: a text on disk for as long as its object lives, and the committed samples.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace kvasir::eval {

/// A file of its own folder with this text, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view text, const std::string& name = "data.jsonl") {
    std::string folder = testing::TempDir() + "/kvasir-data-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) ADD_FAILURE() << "no folder " << folder;
    folder_ = folder;
    path_ = folder + "/" + name;
    write(text);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  /// Another text in its place. A new file: some file systems wait for the disk where a file is
  /// cut.
  void write(std::string_view text) const {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
    std::ofstream file(path_, std::ios::binary);
    file << text;
    EXPECT_TRUE(file.flush()) << path_;
  }
  const std::string& path() const { return path_; }

 private:
  std::string folder_;
  std::string path_;
};

inline std::string sample_path(const std::string& name) { return KVASIR_SAMPLES "/" + name; }

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace kvasir::eval
