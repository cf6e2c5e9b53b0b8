#include "core/cost/best_rates.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/posix/testing/obstacles.h"

namespace tessera {
namespace {

std::string NewPath() {
  const std::string folder =
      ::testing::TempDir() + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::remove_all(folder);
  return folder + "/tessera/machine.json";
}

TEST(BestRatesTest, KeepsTheBestOfEachRateBetweenRuns) {
  const std::string path = NewPath();
  EXPECT_EQ(KeepBestRates(path, "a", {100, 10}).flops_per_second, 100);
  const MachineRates best = KeepBestRates(path, "a", {90, 12});
  EXPECT_EQ(best.flops_per_second, 100);
  EXPECT_EQ(best.bytes_per_second, 12);
  EXPECT_EQ(KeepBestRates(path, "a", {1, 1}).bytes_per_second, 12);
  EXPECT_EQ(KeepBestRates(path, "b", {1, 2}).bytes_per_second, 2) << "another machine";
  EXPECT_EQ(KeepBestRates(path, "a", {1, 1}).flops_per_second, 100);
  std::filesystem::remove(path);
  EXPECT_EQ(KeepBestRates(path, "a", {1, 1}).flops_per_second, 1) << "it may be deleted";
}

TEST(BestRatesTest, AFileThatIsNoneIsReplaced) {
  const std::string path = NewPath();
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  for (const char* text :
       {"", "no JSON", "[1]", "{\"a\": 7}", "{\"a\": {\"flops_per_second\": \"x\"}}",
        "{\"a\": {\"flops_per_second\": null, \"bytes_per_second\": -1}}", "{\"a\""}) {
    SCOPED_TRACE(text);
    std::ofstream(path) << text;
    const MachineRates best = KeepBestRates(path, "a", {5, 6});
    EXPECT_EQ(best.flops_per_second, 5);
    EXPECT_EQ(best.bytes_per_second, 6);
    EXPECT_EQ(KeepBestRates(path, "a", {1, 1}).flops_per_second, 5);
  }
  // Copying this recursed until the stack was full.
  std::ofstream(path) << "{\"b\": " << std::string(200000, '[') << std::string(200000, ']') << "}";
  EXPECT_EQ(KeepBestRates(path, "a", {5, 6}).flops_per_second, 5);
  EXPECT_EQ(KeepBestRates(path, "a", {1, 1}).flops_per_second, 5);
  // No file can be written here.
  EXPECT_EQ(KeepBestRates("/proc/none/machine.json", "a", {5, 6}).flops_per_second, 5);
  EXPECT_EQ(KeepBestRates("", "a", {5, 6}).flops_per_second, 5);
}

// Regression: 1e308 was taken, and every run afterwards reached 0 % of it.
TEST(BestRatesTest, RatesThatNoMachineReachesAreReplaced) {
  const std::string path = NewPath();
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  for (const char* rate : {"1e308", "1e309", "1.1e20", "-1", "0", "-1e308", "true", "\"7\""}) {
    SCOPED_TRACE(rate);
    std::ofstream(path) << "{\"a\": {\"flops_per_second\": " << rate
                        << ", \"bytes_per_second\": " << rate << "}}";
    const MachineRates best = KeepBestRates(path, "a", {5, 6});
    EXPECT_EQ(best.flops_per_second, 5);
    EXPECT_EQ(best.bytes_per_second, 6);
    EXPECT_EQ(KeepBestRates(path, "a", {1, 1}).flops_per_second, 5) << "it was replaced";
  }
  std::ofstream(path) << "{\"a\": {\"flops_per_second\": 1e20, \"bytes_per_second\": 1e17}}";
  EXPECT_EQ(KeepBestRates(path, "a", {5, 6}).flops_per_second, 1e20);
  EXPECT_EQ(KeepBestRates(path, "a", {5, 6}).bytes_per_second, 1e17);
}

// Regression: a FIFO was waited for, and a link with the name of the temporary file was followed.
TEST(BestRatesTest, WhatSomeoneHasPreparedIsNotWrittenThrough) {
  const std::string path = NewPath(), victim = NewPath() + ".victim";
  MakeVictim(victim);
  const std::string before = Snapshot(victim);
  for (const Obstacle obstacle : AllObstacles()) {
    if (obstacle == Obstacle::kSocket) continue;  // its path may be too long
    SCOPED_TRACE(NameOf(obstacle));
    Put(obstacle, path, victim);
    Put(Obstacle::kLink, path + "." + std::to_string(getpid()), victim);
    EXPECT_EQ(KeepBestRates(path, "a", {5, 6}).flops_per_second, 5);
    EXPECT_EQ(Snapshot(victim), before);
  }
}

TEST(BestRatesTest, TheFileIsInTheCacheFolder) {
  setenv("HOME", "/home/me", 1);
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(BestRatesPath(), "/home/me/.cache/tessera/machine.json");
  setenv("XDG_CACHE_HOME", "/var/cache", 1);
  EXPECT_EQ(BestRatesPath(), "/var/cache/tessera/machine.json");
  setenv("XDG_CACHE_HOME", "", 1);
  unsetenv("HOME");
  EXPECT_EQ(BestRatesPath(), "");
}

}  // namespace
}  // namespace tessera
