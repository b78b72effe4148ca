#include "eval/measure/machine_read.h"

#include <gtest/gtest.h>

#include <vector>

#include "eval/machine.h"

namespace kvasir::eval {
namespace {

TEST(MachineRead, AddsSamplesAndKeepsTheirMedian) {
  SerialFor serial;
  MachineRead read(serial, 3 << 20);
  EXPECT_EQ(read.gb_per_s(), 0);
  read.measure();
  const size_t once = read.samples().size();
  EXPECT_GT(once, 0U);
  EXPECT_GT(read.gb_per_s(), 0);
  read.measure();
  EXPECT_EQ(read.samples().size(), 2 * once);
}

TEST(MachineRead, BufferIsFarLargerThanTheCaches) {
  EXPECT_GE(read_buffer_bytes(), int64_t{512} << 20);
  SerialFor serial;
  EXPECT_EQ(MachineRead(serial, 1).buffer_bytes(), 1 << 20) << "whole items";
}

TEST(PeakResident, SeesWhatWasFreedAgain) {
  const int64_t before = resident_bytes();
  ASSERT_GT(before, 0);
  const PeakResident peak;
  constexpr int64_t kBytes = int64_t{64} << 20;
  { const std::vector<char> block(kBytes, 1); }
  EXPECT_GE(peak.bytes(), before);
  const std::vector<char> held(kBytes, 1);
  EXPECT_GE(peak.bytes(), before + kBytes / 2);
  EXPECT_LT(peak.bytes(), before + 4 * kBytes);
}

}  // namespace
}  // namespace kvasir::eval
