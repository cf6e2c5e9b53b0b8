#include "core/posix/available_memory.h"

#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(AvailableMemoryTest, SomethingIsAvailable) { EXPECT_GT(AvailableMemory(), 1 << 20); }

TEST(AvailableMemoryTest, ReadsNumbers) {
  const std::string path = testing::TempDir() + "/meminfo";
  std::ofstream(path) << "MemTotal:       24633724 kB\nMemAvailable:   23000000 kB\n";
  EXPECT_EQ(NumberInFile(path, "MemAvailable:"), 23000000);
  EXPECT_EQ(NumberInFile(path, "SwapFree:"), 0);
  EXPECT_EQ(NumberInFile(path + "/none", ""), 0);
  std::ofstream(path) << "max\n";
  EXPECT_EQ(NumberInFile(path, ""), 0);
  EXPECT_EQ(FirstNumber("  12 kB"), 12);
  EXPECT_EQ(FirstNumber(""), 0);
}

}  // namespace
}  // namespace tessera
