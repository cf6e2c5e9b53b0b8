#include "core/posix/available_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace tessera {
namespace {

// Makes a folder with these files, as "/" of a machine.
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

int CoresOfAffinity() {
  cpu_set_t cores;
  EXPECT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  return CPU_COUNT(&cores);
}

TEST(AvailableCoresTest, WithoutAQuotaTheyAreThoseOfTheAffinity) {
  EXPECT_EQ(AvailableCores(Root({})), CoresOfAffinity());
  EXPECT_EQ(AvailableCores(Root(
                {{"/proc/self/cgroup", "0::/a\n"}, {"/sys/fs/cgroup/a/cpu.max", "max 100000\n"}})),
            CoresOfAffinity());
  EXPECT_EQ(AvailableCores(Root({{"/proc/self/cgroup", "4:cpu,cpuacct:/a\n"},
                                 {"/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n"},
                                 {"/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"}})),
            CoresOfAffinity());
  EXPECT_EQ(AvailableCores(Root({{"/proc/self/cgroup", "0::/a\n"},
                                 {"/sys/fs/cgroup/a/cpu.max", "100000000 100000\n"}})),
            CoresOfAffinity());
}

// A container of one core on a machine of many had OMP_NUM_THREADS for the whole machine.
TEST(AvailableCoresTest, TheQuotaOfVersion2Counts) {
  for (const char* quota : {"100000 100000\n", "150000 100000\n", "50000 100000\n"}) {
    EXPECT_EQ(AvailableCores(Root({{"/proc/self/cgroup", "0::/a/b\n"},
                                   {"/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"},
                                   {"/sys/fs/cgroup/a/cpu.max", quota}})),
              1)
        << quota;
  }
}

TEST(AvailableCoresTest, TheQuotaOfVersion1Counts) {
  // The path is the host's, and the mount shows the container's own group.
  EXPECT_EQ(AvailableCores(Root({{"/proc/self/cgroup", "1:name=x:/\n4:cpu,cpuacct:/docker/1\n"},
                                 {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n"},
                                 {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}})),
            1);
}

}  // namespace
}  // namespace tessera
