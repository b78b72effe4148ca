#include "cache/trace.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <vector>

#include "cache/count_allocations.h"

namespace {
std::atomic<int64_t> n_writes{0};
}  // namespace

// The program's own write(2), so that it can be counted.
extern "C" ssize_t write(int fd, const void* data, size_t bytes) {
  ++n_writes;
  return syscall(SYS_write, fd, data, bytes);
}

namespace kvasir {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// A folder of its own for each test, removed at the end.
class Trace : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "kvasir_trace_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path() const { return folder_ / "trace.jsonl"; }

  static std::string content(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static std::vector<std::string> lines(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::string> out;
    for (std::string line; std::getline(file, line);) out.push_back(line);
    return out;
  }
  TraceWriter open() {
    auto writer = TraceWriter::open(path());
    EXPECT_TRUE(writer) << writer.error();
    return std::move(writer.value());
  }
  /// The line that a record gives, parsed.
  json written(const StepRecord& record) {
    fs::remove(path());
    auto writer = open();
    const auto ok = writer.write(record);
    EXPECT_TRUE(ok) << ok.error();
    const auto all = lines(path());
    EXPECT_EQ(all.size(), 1U);
    return json::parse(all.at(0));
  }

  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

StepRecord full_record() {
  StepRecord record;
  record.step = 7;
  record.stream = 2;
  record.pos = 519;
  record.token = 284;
  record.has_confidence = true;
  record.confidence = {0.30000000000000004, 0.2, 3.25, 0.95, true};
  record.has_budget = true;
  record.budget = 128;
  record.live_min = 100;
  record.live_mean = 127.0 / 3;
  record.live_max = 128;
  record.bytes_f16 = 5898240000;
  record.evicted = 30;
  return record;
}

TEST_F(Trace, TheWholeLine) {
  auto writer = open();
  ASSERT_TRUE(writer.write(full_record()));
  EXPECT_EQ(content(path()),
            "{\"step\":7,\"stream\":2,\"pos\":519,\"token\":284,\"c\":0.30000000000000004,"
            "\"entropy\":0.2,\"margin\":3.25,\"p1\":0.95,\"budget\":128,\"live\":{\"min\":100,"
            "\"mean\":42.333333333333336,\"max\":128},\"bytes\":{\"f16\":5898240000},"
            "\"evicted\":30}\n");
}

TEST_F(Trace, FieldsParseBack) {
  const json line = written(full_record());
  EXPECT_EQ(line, json::parse(R"({"step": 7, "stream": 2, "pos": 519, "token": 284,
      "c": 0.30000000000000004, "entropy": 0.2, "margin": 3.25, "p1": 0.95, "budget": 128,
      "live": {"min": 100, "mean": 42.333333333333336, "max": 128},
      "bytes": {"f16": 5898240000}, "evicted": 30})"));
}

TEST_F(Trace, PrefillHasNulls) {
  StepRecord record = full_record();
  record.token = -1;
  record.has_confidence = false;
  record.has_budget = false;
  const json line = written(record);
  for (const char* key : {"token", "c", "entropy", "margin", "p1", "budget"}) {
    EXPECT_TRUE(line.at(key).is_null()) << key;
  }
  EXPECT_EQ(line.at("pos"), 519);
  EXPECT_EQ(line.at("live").at("max"), 128);
}

TEST_F(Trace, AOneHotStepHasNoMargin) {
  StepRecord record = full_record();
  record.confidence = {1, 0, std::numeric_limits<double>::infinity(), 1, true};
  const json line = written(record);
  EXPECT_TRUE(line.at("margin").is_null());
  EXPECT_EQ(line.at("c"), 1);
  EXPECT_EQ(line.at("entropy"), 0);
}

TEST_F(Trace, InvalidLogitsHaveConfidenceZeroAndNothingElse) {
  StepRecord record = full_record();
  record.confidence = {};
  const json line = written(record);
  EXPECT_EQ(line.at("c"), 0);
  for (const char* key : {"entropy", "margin", "p1"}) EXPECT_TRUE(line.at(key).is_null()) << key;
  EXPECT_EQ(line.at("budget"), 128);
}

TEST_F(Trace, NumbersReadBackAsTheSameValue) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-320, 12), digits(0.1, 1);
  for (int i = 0; i < 500; ++i) {
    StepRecord record = full_record();
    const auto draw = [&] { return digits(random) * std::pow(10.0, exponent(random)); };
    record.confidence = {draw(), draw(), draw(), draw(), true};
    record.live_mean = draw();
    record.bytes_f16 = static_cast<int64_t>(random() >> 1);
    const json line = written(record);
    EXPECT_EQ(line.at("c").get<double>(), record.confidence.c);
    EXPECT_EQ(line.at("entropy").get<double>(), record.confidence.entropy);
    EXPECT_EQ(line.at("margin").get<double>(), record.confidence.margin);
    EXPECT_EQ(line.at("p1").get<double>(), record.confidence.p1);
    EXPECT_EQ(line.at("live").at("mean").get<double>(), record.live_mean);
    EXPECT_EQ(line.at("bytes").at("f16").get<int64_t>(), record.bytes_f16);
  }
}

// The longest numbers of each type still fit into the line.
TEST_F(Trace, ExtremesFit) {
  StepRecord record;
  record.step = record.bytes_f16 = record.evicted = std::numeric_limits<int64_t>::min();
  record.stream = record.pos = record.budget = std::numeric_limits<int32_t>::min();
  record.live_min = record.live_max = std::numeric_limits<int32_t>::min();
  record.token = std::numeric_limits<int32_t>::max();
  record.has_confidence = record.has_budget = true;
  const double longest = -2.2250738585072014e-308;
  record.confidence = {longest, longest, longest, longest, true};
  record.live_mean = longest;
  const json line = written(record);
  EXPECT_EQ(line.at("step").get<int64_t>(), record.step);
  EXPECT_EQ(line.at("evicted").get<int64_t>(), record.evicted);
  EXPECT_EQ(line.at("live").at("mean").get<double>(), longest);
  EXPECT_LT(lines(path()).at(0).size(), 500U);
}

TEST_F(Trace, OneWriteALineAndNoAllocation) {
  auto writer = open();
  const StepRecord record = full_record();
  ASSERT_TRUE(writer.write(record));
  const int64_t writes = n_writes, allocations = n_allocations;
  bool all = true;
  for (int i = 0; i < 100; ++i) all = static_cast<bool>(writer.write(record)) && all;
  EXPECT_EQ(n_writes - writes, 100);
  EXPECT_EQ(n_allocations - allocations, 0);
  EXPECT_TRUE(all);
  EXPECT_EQ(lines(path()).size(), 101U);
}

TEST_F(Trace, ContinuesAnExistingFileAndSharesIt) {
  std::ofstream(path()) << "{\"before\":1}\n";
  auto a = open();
  auto b = open();
  StepRecord record;
  for (record.step = 0; record.step < 10; ++record.step) {
    ASSERT_TRUE((record.step % 2 == 0 ? a : b).write(record));
  }
  const auto all = lines(path());
  ASSERT_EQ(all.size(), 11U);
  EXPECT_EQ(all[0], "{\"before\":1}");
  for (size_t i = 1; i < all.size(); ++i) EXPECT_EQ(json::parse(all[i]).at("step"), i - 1);
}

TEST_F(Trace, MovesWithItsFile) {
  auto first = open();
  TraceWriter second(std::move(first));
  ASSERT_TRUE(second.write(full_record()));
  TraceWriter third = open();
  third = std::move(second);
  ASSERT_TRUE(third.write(full_record()));
  EXPECT_EQ(lines(path()).size(), 2U);
}

TEST_F(Trace, AKilledProcessLeavesCompleteLines) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto writer = TraceWriter::open(path());
    StepRecord record = full_record();
    for (;; ++record.step) {
      if (!writer || !writer.value().write(record)) _exit(1);
    }
  }
  std::error_code missing;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    const auto size = fs::file_size(path(), missing);
    if (!missing && size > 100000) kill(child, SIGKILL);
    usleep(1000);
  }
  ASSERT_TRUE(WIFSIGNALED(status)) << "the child could not write";
  const std::string text = content(path());
  auto all = lines(path());
  if (text.back() != '\n') {
    // SIGKILL may stop a write between two pages, nowhere else.
    EXPECT_EQ(text.size() % static_cast<size_t>(sysconf(_SC_PAGESIZE)), 0U);
    all.pop_back();
  }
  int64_t step = 7;
  for (const auto& line : all) ASSERT_EQ(json::parse(line).at("step"), step++);
  EXPECT_GT(step, 300);
}

TEST_F(Trace, ContinuesBehindAPieceOfALine) {
  std::ofstream(path()) << "{\"step\":1}\n{\"st";
  ASSERT_TRUE(open().write(full_record()));
  const auto all = lines(path());
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1], "{\"st");
  EXPECT_EQ(json::parse(all[2]).at("step"), full_record().step);
}

TEST_F(Trace, AFullDiskIsReportedOnce) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  auto writer = TraceWriter::open("/dev/full");
  ASSERT_TRUE(writer) << writer.error();
  const auto failed = writer.value().write(full_record());
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error(),
            "--kv-trace /dev/full: writing failed, the trace ends here: No space left on device");
  const int64_t writes = n_writes;
  EXPECT_TRUE(writer.value().write(full_record()));
  EXPECT_EQ(n_writes, writes);
}

TEST_F(Trace, RefusesWhatCannotBeWritten) {
  const std::string name = folder().string();
  const std::string missing = name + "/no/such/folder/t.jsonl";
  for (const bool check : {false, true}) {
    const auto error = [&](const std::string& path) {
      return check ? TraceWriter::check(path).error() : TraceWriter::open(path).error();
    };
    EXPECT_EQ(error(name), "--kv-trace " + name + ": cannot be opened for writing: Is a directory");
    EXPECT_EQ(error(missing), "--kv-trace " + missing +
                                  ": cannot be opened for writing: No such file or directory");
  }
}

TEST_F(Trace, CheckLeavesFilesAlone) {
  ASSERT_TRUE(TraceWriter::check(path()));
  EXPECT_FALSE(fs::exists(path()));
  std::ofstream(path()) << "kept\n";
  ASSERT_TRUE(TraceWriter::check(path()));
  EXPECT_EQ(content(path()), "kept\n");
}

// Opening a named pipe would wait for its reader.
TEST_F(Trace, CheckDoesNotOpenAPipe) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_TRUE(TraceWriter::check(path()));
}

}  // namespace
}  // namespace kvasir
