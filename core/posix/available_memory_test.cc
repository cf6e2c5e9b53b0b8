#include "core/posix/available_memory.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Makes a folder with these files, which stands for "/" of a machine.
std::string Root(const std::map<std::string, std::string>& files) {
  const std::string root =
      testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::remove_all(root);
  for (const auto& [path, text] : files) {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  return root;
}

std::string Bytes(int64_t mib) { return std::to_string(mib * kMiB) + "\n"; }

TEST(AvailableMemoryTest, SomethingIsAvailableHere) { EXPECT_GT(AvailableMemory(), 1 << 20); }

TEST(AvailableMemoryTest, WithoutAControlGroupItIsTheMachines) {
  EXPECT_EQ(AvailableMemory(Root({{"/proc/meminfo", "MemTotal: 2048 kB\nMemAvailable: 1024 kB\n"},
                                  {"/proc/self/cgroup", "0::/\n"},
                                  {"/sys/fs/cgroup/memory.max", "max\n"}})),
            kMiB);
  EXPECT_EQ(AvailableMemory(Root({})), 0);
}

// A container that has read 450 MiB of data has nearly used up its 512 MiB, but most of that is
// page cache.
TEST(AvailableMemoryTest, PageCacheIsAvailableInVersion1) {
  EXPECT_EQ(
      AvailableMemory(
          Root({{"/proc/meminfo", "MemAvailable: 8388608 kB\n"},
                {"/proc/self/cgroup", "5:cpu,cpuacct:/docker/1f\n4:memory:/docker/1f\n"},
                {"/sys/fs/cgroup/memory/memory.limit_in_bytes", Bytes(512)},
                {"/sys/fs/cgroup/memory/memory.usage_in_bytes", Bytes(510)},
                {"/sys/fs/cgroup/memory/memory.stat",
                 "cache " + Bytes(460) + "inactive_file " + Bytes(1) + "total_inactive_file " +
                     Bytes(400) + "total_active_file " + Bytes(50) + "total_shmem " + Bytes(10)}})),
      (512 - 60) * kMiB);
}

TEST(AvailableMemoryTest, PageCacheIsAvailableInVersion2) {
  EXPECT_EQ(AvailableMemory(Root({{"/proc/meminfo", "MemAvailable: 8388608 kB\n"},
                                  {"/proc/self/cgroup", "0::/\n"},
                                  {"/sys/fs/cgroup/memory.max", Bytes(512)},
                                  {"/sys/fs/cgroup/memory.current", Bytes(510)},
                                  {"/sys/fs/cgroup/memory.stat",
                                   "anon " + Bytes(40) + "file " + Bytes(460) + "shmem " +
                                       Bytes(10) + "inactive_file " + Bytes(400) + "active_file " +
                                       Bytes(50) + "slab_reclaimable " + Bytes(5)}})),
            (512 - 55) * kMiB);
}

TEST(AvailableMemoryTest, TheSmallestOfTheGroupsAroundTheProcessCounts) {
  const std::string group = "/sys/fs/cgroup/user.slice";
  EXPECT_EQ(AvailableMemory(Root({{"/proc/meminfo", "MemAvailable: 8388608 kB\n"},
                                  {"/proc/self/cgroup", "0::/user.slice/job/step\n"},
                                  {group + "/job/step/memory.max", "max\n"},
                                  {group + "/job/memory.max", Bytes(300)},
                                  {group + "/job/memory.current", Bytes(100)},
                                  {group + "/memory.max", Bytes(1000)},
                                  {group + "/memory.current", Bytes(850)}})),
            150 * kMiB);
}

TEST(AvailableMemoryTest, AFullGroupAllowsNextToNothingButIsKnown) {
  EXPECT_EQ(AvailableMemory(Root({{"/proc/self/cgroup", "4:memory:/\n"},
                                  {"/sys/fs/cgroup/memory/memory.limit_in_bytes", Bytes(64)},
                                  {"/sys/fs/cgroup/memory/memory.usage_in_bytes", Bytes(65)}})),
            1);
}

TEST(AvailableMemoryTest, Version1WithoutALimit) {
  EXPECT_EQ(AvailableMemory(
                Root({{"/proc/meminfo", "MemAvailable: 1024 kB\n"},
                      {"/proc/self/cgroup", "4:memory:/\n"},
                      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
                      {"/sys/fs/cgroup/memory/memory.usage_in_bytes", Bytes(65)}})),
            kMiB);
}

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
