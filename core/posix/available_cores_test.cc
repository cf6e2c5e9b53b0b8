#include "core/posix/available_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace tessera {
namespace {

// Makes a folder with these files, which stands for "/" of a machine.
std::string Root(const std::map<std::string, std::string>& files) {
  std::string root =
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

// Regression test: a container with one core on a machine with many got OMP_NUM_THREADS of the full
// machine.
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
  // The path is that of the host, and the mount shows the container's own group.
  EXPECT_EQ(AvailableCores(Root({{"/proc/self/cgroup", "1:name=x:/\n4:cpu,cpuacct:/docker/1\n"},
                                 {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n"},
                                 {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}})),
            1);
}

TEST(AvailableCoresTest, AllowedCoresAreThoseOfTheAffinity) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  const std::vector<int> cores = AllowedCores();
  EXPECT_EQ(cores.size(), CPU_COUNT(&set));
  for (const int core : cores) EXPECT_TRUE(CPU_ISSET(core, &set)) << core;
}

// Two packages, the second with two memory nodes, and two hardware threads in each physical core.
TEST(AvailableCoresTest, NeighboursStandBesideEachOther) {
  constexpr char kCpu[] = "/sys/devices/system/cpu/cpu";
  std::map<std::string, std::string> files;
  const auto add = [&](int core, int package, int node, int physical) {
    const std::string folder = kCpu + std::to_string(core);
    files[folder + "/topology/physical_package_id"] = std::to_string(package);
    files[folder + "/topology/core_id"] = std::to_string(physical);
    files[folder + "/node" + std::to_string(node) + "/cpulist"] = "";
  };
  add(0, 0, 0, 0);
  add(1, 1, 2, 0);
  add(2, 1, 1, 1);
  add(3, 0, 0, 1);
  add(4, 0, 0, 0);
  add(5, 1, 2, 0);
  add(6, 1, 1, 1);
  add(7, 0, 0, 1);
  std::vector<int> cores = {0, 1, 2, 3, 4, 5, 6, 7};
  SortByTopology(&cores, Root(files));
  EXPECT_EQ(cores, (std::vector<int>{0, 4, 3, 7, 2, 6, 1, 5}));
}

TEST(AvailableCoresTest, WithoutATopologyCoresAreInAscendingOrder) {
  std::vector<int> cores = {5, 3, 12};
  SortByTopology(&cores, Root({}));
  EXPECT_EQ(cores, (std::vector<int>{3, 5, 12}));
}

}  // namespace
}  // namespace tessera
