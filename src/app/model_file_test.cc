#include "app/model_file.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>

#include "ggml.h"
#include "gguf.h"

namespace kvasir::app {
namespace {

namespace fs = std::filesystem;

// A GGUF file with metadata and one tensor of 1024 floats, in a folder of its own.
class ModelFile : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              ("kvasir_model_file_" + std::string(test->name()) + std::to_string(getpid()));
    fs::create_directories(folder_);
    gguf_ = gguf_init_empty();
    gguf_set_val_str(gguf_, "general.architecture", "llama");
    gguf_set_val_u32(gguf_, "llama.block_count", 4);
    gguf_set_val_u32(gguf_, "llama.context_length", 2048);
    gguf_set_val_u32(gguf_, "llama.embedding_length", 256);
    gguf_set_val_u32(gguf_, "llama.attention.head_count", 8);
    gguf_set_val_u32(gguf_, "llama.attention.head_count_kv", 2);
  }
  void TearDown() override {
    gguf_free(gguf_);
    fs::remove_all(folder_);
  }

  void arch(const char* name) { gguf_set_val_str(gguf_, "general.architecture", name); }

  std::string write(const char* tensor_name = "output.weight") {
    ggml_context* context = ggml_init({1 << 20, nullptr, false});
    ggml_tensor* tensor = ggml_new_tensor_1d(context, GGML_TYPE_F32, 1024);
    ggml_set_name(tensor, tensor_name);
    gguf_add_tensor(gguf_, tensor);
    std::string path = (folder_ / "model.gguf").string();
    EXPECT_TRUE(gguf_write_to_file(gguf_, path.c_str(), false));
    ggml_free(context);
    return path;
  }

  void expect_refused(const std::string& path, const std::string& part) {
    testing::internal::CaptureStderr();
    const Result<ModelInfo> info = read_model(path);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    ASSERT_FALSE(info) << "expected: " << part;
    EXPECT_NE(info.error().find(part), std::string::npos) << info.error();
    EXPECT_NE(info.error().find(path), std::string::npos) << info.error();
    EXPECT_EQ(info.error().find('\n'), std::string::npos);
  }

  gguf_context* gguf() { return gguf_; }
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
  gguf_context* gguf_ = nullptr;
};

TEST_F(ModelFile, GeometryFromWidthAndHeads) {
  const Result<ModelInfo> info = read_model(write());
  ASSERT_TRUE(info) << info.error();
  EXPECT_EQ(info.value().architecture, "llama");
  EXPECT_EQ(info.value().context_length, 2048);
  ASSERT_EQ(info.value().n_layers(), 4);
  EXPECT_EQ(info.value().n_kv_layers(), 4);
  const LayerGeometry& layer = info.value().layers[0];
  EXPECT_EQ(layer.n_heads, 8);
  EXPECT_EQ(layer.n_kv_heads, 2);
  EXPECT_EQ(layer.head_dim_k, 32);
  EXPECT_EQ(layer.window, 0);
  EXPECT_EQ(layer.f16_bytes_per_token(), 2 * 2 * (32 + 32));
  EXPECT_EQ(info.value().yarn_orig_ctx, 0);
  EXPECT_FALSE(info.value().learned_positions);
}

TEST_F(ModelFile, HeadDimsAndHeadsOfEachLayer) {
  gguf_set_val_u32(gguf(), "llama.attention.key_length", 96);
  gguf_set_val_u32(gguf(), "llama.attention.value_length", 80);
  const std::array<int32_t, 4> heads = {2, 0, 4, 0};
  gguf_set_arr_data(gguf(), "llama.attention.head_count_kv", GGUF_TYPE_INT32, heads.data(), 4);
  const Result<ModelInfo> info = read_model(write());
  ASSERT_TRUE(info) << info.error();
  EXPECT_EQ(info.value().n_kv_layers(), 2);
  EXPECT_EQ(info.value().layers[1].f16_bytes_per_token(), 0);
  EXPECT_EQ(info.value().layers[2].f16_bytes_per_token(), 2 * 4 * (96 + 80));
}

TEST_F(ModelFile, YarnAndLearnedPositions) {
  gguf_set_val_str(gguf(), "llama.rope.scaling.type", "yarn");
  const Result<ModelInfo> unstated = read_model(write("position_embd.weight"));
  ASSERT_TRUE(unstated) << unstated.error();
  EXPECT_EQ(unstated.value().yarn_orig_ctx, 2048);
  EXPECT_TRUE(unstated.value().learned_positions);
}

TEST_F(ModelFile, YarnWithItsOriginalContext) {
  gguf_set_val_str(gguf(), "llama.rope.scaling.type", "yarn");
  gguf_set_val_u32(gguf(), "llama.rope.scaling.original_context_length", 512);
  EXPECT_EQ(read_model(write()).value().yarn_orig_ctx, 512);
}

TEST_F(ModelFile, WindowsByCompiledPeriod) {
  arch("gemma2");
  gguf_set_val_u32(gguf(), "gemma2.block_count", 4);
  gguf_set_val_u32(gguf(), "gemma2.attention.head_count", 8);
  gguf_set_val_u32(gguf(), "gemma2.attention.sliding_window", 128);
  const ModelInfo info = read_model(write()).value();
  EXPECT_EQ(info.layers[0].window, 128);
  EXPECT_EQ(info.layers[1].window, 0);
  EXPECT_EQ(info.layers[2].window, 128);
  EXPECT_EQ(info.layers[3].window, 0);
}

TEST_F(ModelFile, WindowsByFlagOfEachLayer) {
  gguf_set_val_u32(gguf(), "llama.attention.sliding_window", 64);
  const std::array<int8_t, 4> flags = {0, 1, 1, 0};
  gguf_set_arr_data(gguf(), "llama.attention.sliding_window_pattern", GGUF_TYPE_BOOL, flags.data(),
                    4);
  const ModelInfo info = read_model(write()).value();
  EXPECT_TRUE(info.windows_known);
  EXPECT_EQ(info.layers[0].window, 0);
  EXPECT_EQ(info.layers[1].window, 64);
  EXPECT_EQ(info.layers[3].window, 0);
}

TEST_F(ModelFile, AnUnknownPatternIsSaidToBeUnknown) {
  gguf_set_val_u32(gguf(), "llama.attention.sliding_window", 64);
  EXPECT_FALSE(read_model(write()).value().windows_known);
}

TEST_F(ModelFile, ValuesOfTheWrongTypeCountAsAbsent) {
  gguf_set_val_str(gguf(), "llama.context_length", "many");
  gguf_set_val_str(gguf(), "llama.attention.head_count_kv", "three");
  const Result<ModelInfo> info = read_model(write());
  ASSERT_TRUE(info) << info.error();
  EXPECT_EQ(info.value().context_length, 0);
  EXPECT_EQ(info.value().layers[0].n_kv_heads, 8) << "as many as query heads where not given";
}

TEST_F(ModelFile, TruncationIsFoundByteExactly) {
  const std::string path = write();
  const auto size = fs::file_size(path);
  ASSERT_TRUE(read_model(path));
  fs::resize_file(path, size - 1);
  expect_refused(path, "truncated: tensor output.weight");
  fs::resize_file(path, 100);
  expect_refused(path, "truncated or damaged");
  fs::resize_file(path, 5);
  expect_refused(path, "shorter than a GGUF header");
}

TEST_F(ModelFile, MissingFolderForeignAndNewFiles) {
  expect_refused((folder() / "absent.gguf").string(), "no such file");
  expect_refused(folder().string(), "not a file");
  const std::string path = (folder() / "other.gguf").string();
  std::ofstream(path) << "PK\3\4 and more";
  expect_refused(path, "not a GGUF file");
  const uint32_t version = 4;
  std::ofstream file(path, std::ios::binary);
  file << "GGUF";
  file.write(reinterpret_cast<const char*>(&version), sizeof(version));
  file.close();
  expect_refused(path, "GGUF version 4, supported are 2 and 3");
}

TEST_F(ModelFile, AMissingPartOfASplitModelIsNamed) {
  gguf_set_val_u16(gguf(), "split.count", 2);
  const std::string first = (folder() / "m-00001-of-00002.gguf").string();
  const std::string second = (folder() / "m-00002-of-00002.gguf").string();
  fs::copy_file(write(), first);
  const Result<ModelInfo> info = read_model(first);
  ASSERT_FALSE(info);
  EXPECT_NE(info.error().find(second), std::string::npos) << info.error();
  fs::copy_file(first, second);
  ASSERT_TRUE(read_model(first));
  EXPECT_EQ(read_model(first).value().file_bytes, static_cast<int64_t>(2 * fs::file_size(second)));
}

}  // namespace
}  // namespace kvasir::app
