#include "core/posix/user_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace tessera {
namespace {

TEST(UserFolderTest, RelativePathsStartWhereTheUserStands) {
  const std::string before = std::filesystem::current_path().string();
  unsetenv("BUILD_WORKING_DIRECTORY");
  EXPECT_EQ(UserPath("a"), before + "/a");
  EXPECT_EQ(*EnterUserFolder("bin/train"), "bin/train");

  const std::string user = std::filesystem::canonical(testing::TempDir()).string();
  setenv("BUILD_WORKING_DIRECTORY", user.c_str(), 1);
  EXPECT_EQ(UserPath("a"), user + "/a") << "also before the folder is entered";
  EXPECT_EQ(*EnterUserFolder("bin/train"), before + "/bin/train");
  EXPECT_EQ(std::filesystem::current_path().string(), user);
  EXPECT_EQ(*EnterUserFolder("/bin/train"), "/bin/train");
  EXPECT_EQ(*EnterUserFolder("train"), "train");
  EXPECT_EQ(UserPath(""), "");
  EXPECT_EQ(UserPath("runs/a/"), user + "/runs/a");
  EXPECT_EQ(UserPath("./b/../c"), user + "/c");
  EXPECT_EQ(UserPath("/tmp//c"), "/tmp/c");
}

TEST(UserFolderTest, AFolderThatIsGoneIsNamed) {
  setenv("BUILD_WORKING_DIRECTORY", "/there/is/no/such/folder", 1);
  const absl::StatusOr<std::string> entered = EnterUserFolder("train");
  EXPECT_EQ(entered.status().message(),
            "cannot change to /there/is/no/such/folder, which BUILD_WORKING_DIRECTORY names: No "
            "such file or directory");
}

}  // namespace
}  // namespace tessera
