#include "core/posix/free_disk_space.h"

#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(FreeDiskSpaceTest, IsKnownOrNot) {
  EXPECT_GT(FreeDiskSpace(::testing::TempDir()), 0);
  EXPECT_EQ(FreeDiskSpace("/proc"), -1) << "it has no blocks";
  EXPECT_EQ(FreeDiskSpace("/no/such/folder"), -1);
}

}  // namespace
}  // namespace tessera
