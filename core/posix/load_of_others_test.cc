#include "core/posix/load_of_others.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "core/posix/available_cores.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// A /proc/stat in which each allowed core has worked for `busy` ticks, and one that is not allowed
// for far more.
void WriteStat(const std::string& root, int64_t busy) {
  std::filesystem::create_directories(root + "/proc");
  std::ofstream file(root + "/proc/stat");
  file << "cpu  1 2 3 4\n";
  for (const int core : AllowedCores()) {
    file << "cpu" << core << " " << busy << " 0 0 77 88 0 0 0 0 0\n";
  }
  file << "cpu99999 5000000 0 0 0 0 0 0 0 0 0\nintr 1 2 3\n";
}

TEST(LoadOfOthersTest, CountsWorkOnTheAllowedCoresThatIsNotItsOwn) {
  const std::string root = ::testing::TempDir() + "/load";
  WriteStat(root, 100);
  const LoadOfOthers load(root);
  EXPECT_EQ(load.Share(), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  WriteStat(root, 100 + 10 * sysconf(_SC_CLK_TCK));  // 10 s of work in 20 ms
  EXPECT_EQ(load.Share(), 1);
}

TEST(LoadOfOthersTest, IsZeroIfTheSystemDoesNotSay) {
  const LoadOfOthers load(::testing::TempDir() + "/nothing");
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(load.Share(), 0);
}

TEST(LoadOfOthersTest, OwnWorkIsNotThatOfOthers) {
  const LoadOfOthers load;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (std::chrono::steady_clock::now() < end) {
  }
  // Other tests may run; but this thread's own core is not counted among what they use.
  EXPECT_LT(load.Share(), 1 - 0.2 / static_cast<double>(AllowedCores().size()));
}

}  // namespace
}  // namespace tessera
