// What a calibration file gives a front end, and which ones are refused.
#include "app/calibration_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace kvasir::app {
namespace {

namespace fs = std::filesystem;

class CalibrationFile : public testing::Test {
 protected:
  CalibrationFile() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              ("kvasir_calibration_" + std::string(test->name()) + std::to_string(getpid()));
    fs::create_directories(folder_);
    model_path_ = (folder_ / "m.gguf").string();
    path_ = model_path_ + ".kvasir.json";
    model_.file_bytes = 1000;
    LayerGeometry layer;
    layer.n_kv_heads = 2;
    model_.layers.assign(8, layer);
    omnikv_.select = "omnikv";
  }
  ~CalibrationFile() override { fs::remove_all(folder_); }

  void put(const std::string& text) const { std::ofstream(path_) << text; }
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void expect_refused(const std::string& part) {
    CacheOptions options = omnikv_;
    const auto taken = take_calibration({model_path_}, model_, options);
    ASSERT_FALSE(taken) << part;
    EXPECT_EQ(taken.error().rfind(path_ + ": ", 0), 0u) << taken.error();
    EXPECT_NE(taken.error().find(part), std::string::npos) << taken.error();
    EXPECT_EQ(taken.error().find('\n'), std::string::npos) << taken.error();
    EXPECT_EQ(options, omnikv_);
  }

  fs::path folder_;
  std::string model_path_, path_;
  ModelInfo model_;
  CacheOptions omnikv_;
  const Calibration calibration_ = {"m.gguf", 1000, {0, 2, 7}, 0.5, "bible", 4096};
};

TEST_F(CalibrationFile, IsUsedForOmniKvWithoutLayersOfItsOwn) {
  ASSERT_TRUE(write_calibration(path_, calibration_, false));
  CacheOptions options = omnikv_;
  const auto taken = take_calibration({model_path_}, model_, options);
  ASSERT_TRUE(taken) << taken.error();
  EXPECT_EQ(taken.value(), "--kv-full-layers 0,2,7, from " + path_);
  EXPECT_EQ(options.select_params.full_layers, (std::vector<int32_t>{0, 2, 7}));

  for (const char* select : {"dense", "quest"}) {
    CacheOptions other;
    other.select = select;
    EXPECT_EQ(take_calibration({model_path_}, model_, other).value(), "");
    EXPECT_FALSE(other.select_params.full_layers);
  }
  CacheOptions given = omnikv_;
  given.select_params.full_layers = {0, 1};
  EXPECT_EQ(take_calibration({model_path_}, model_, given).value(), "");
  EXPECT_EQ(given.select_params.full_layers, (std::vector<int32_t>{0, 1}));
}

TEST_F(CalibrationFile, IsNotMissedAndNotReadForSeveralModels) {
  CacheOptions options = omnikv_;
  EXPECT_EQ(take_calibration({model_path_}, model_, options).value(), "");
  ASSERT_TRUE(write_calibration(path_, calibration_, false));
  const auto taken = take_calibration({"/nonexistent/a.gguf", model_path_}, model_, options);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken.value().rfind(path_ + " is not read", 0), 0u) << taken.value();
  EXPECT_EQ(options, omnikv_);
}

TEST_F(CalibrationFile, ThatDoesNotFitIsRefused) {
  put("{\"model_bytes\":1000,\"full_layers\":[0,");
  expect_refused("not a JSON object");
  put("[1]");
  expect_refused("not a JSON object");
  put("{\"full_layers\":[0]}");
  expect_refused("model_bytes null, this one has 1000");
  put("{\"model_bytes\":999,\"full_layers\":[0]}");
  expect_refused("model_bytes 999, this one has 1000");
  for (const std::string layers : {"null", "[]", "[1,2]", "[0,2,2]", "[0,-1]", "[0,8]", "[0,1.5]",
                                   "[0,99999999999]", "[\"0\"]"}) {
    put("{\"model_bytes\":1000,\"full_layers\":" + layers + "}");
    expect_refused("full_layers " + layers + ", allowed are ascending numbers from 0 to 7");
  }
}

TEST_F(CalibrationFile, CountsLayersWithoutAWindowAlone) {
  model_.layers[1].window = 512;
  model_.layers[4].n_kv_heads = 0;
  EXPECT_EQ(selectable_layers(model_), (std::vector<int32_t>{0, 2, 3, 5, 6, 7}));
  put("{\"model_bytes\":1000,\"full_layers\":[0,6]}");
  expect_refused("from 0 to 5");
}

TEST_F(CalibrationFile, IsReplacedOnlyWhereAsked) {
  put("mine");
  auto written = write_calibration(path_, calibration_, false);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error(),
            path_ + " is there already: --force replaces it, --out FILE writes another");
  EXPECT_EQ(text(), "mine");
  written = write_calibration(path_, calibration_, true);
  ASSERT_TRUE(written) << written.error();
  EXPECT_NE(text().find("\"model\":\"m.gguf\",\"model_bytes\":1000,\"full_layers\":[0,2,7],"
                        "\"score\":0.5,\"text\":\"bible\",\"tokens\":4096}\n"),
            std::string::npos)
      << text();
  EXPECT_FALSE(fs::exists(path_ + ".new"));
}

TEST_F(CalibrationFile, SaysWhereItCannotBeWritten) {
  const std::string path = (folder_ / "absent" / "x.json").string();
  const auto checked = check_calibration_target(path, true);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error(),
            "cannot write " + path + ": No such file or directory; --out FILE writes it elsewhere");
  EXPECT_FALSE(check_calibration_target(folder_.string(), true));
}

}  // namespace
}  // namespace kvasir::app
