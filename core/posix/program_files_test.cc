#include "core/posix/program_files.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

// A runfile that nobody has.
constexpr char kRunfile[] = "tessera/data/of_program_files_test.txt";

void Write(const fs::path& path) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << "text";
}

// Each test stands in a new folder, and has none of Bazel's variables.
class ProgramFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::canonical(testing::TempDir()) / "program_files_test" /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::current_path(folder_);
    unsetenv("RUNFILES_DIR");
    unsetenv("RUNFILES_MANIFEST_FILE");
  }

  fs::path folder_;
};

TEST_F(ProgramFilesTest, TheProgramIsThisOne) {
  const std::string path = ProgramPath();
  EXPECT_TRUE(fs::path(path).is_absolute()) << path;
  EXPECT_EQ(fs::canonical(path).string(), path);
  EXPECT_TRUE(fs::equivalent(path, "/proc/self/exe"));
}

TEST_F(ProgramFilesTest, AFileThatIsNowhereIsAnErrorThatListsTheFolders) {
  const absl::Status status = FindProgramFile(kRunfile).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("of_program_files_test.txt is in none of /"));
  EXPECT_THAT(status.message(), HasSubstr(ProgramPath() + ".runfiles/tessera/data"));
  EXPECT_THAT(status.message(), HasSubstr(fs::path(ProgramPath()).parent_path().string()));
  EXPECT_THAT(status.message(), Not(HasSubstr("\n")));
}

// Regression: the working directory supplied plugins and data if argv[0] was a name without a
// folder, as the shell passes it for a program that it finds in $PATH.
TEST_F(ProgramFilesTest, TheWorkingDirectoryHasNoFilesOfTheProgram) {
  const std::string name = fs::path(ProgramPath()).filename().string();
  Write(folder_ / (name + ".runfiles") / kRunfile);
  Write(folder_ / kRunfile);
  Write(folder_ / "of_program_files_test.txt");
  std::ofstream(folder_ / (name + ".runfiles_manifest"))
      << kRunfile << " " << (folder_ / kRunfile).string() << "\n";
  EXPECT_TRUE(absl::IsNotFound(FindProgramFile(kRunfile).status()));
}

TEST_F(ProgramFilesTest, BazelsVariablesNameAFolderOrAManifest) {
  Write(folder_ / "runfiles" / kRunfile);
  setenv("RUNFILES_DIR", (folder_ / "runfiles").c_str(), 1);
  const auto in_folder = FindProgramFile(kRunfile);
  ASSERT_TRUE(in_folder.ok()) << in_folder.status();
  EXPECT_EQ(*in_folder, (folder_ / "runfiles" / kRunfile).string());

  unsetenv("RUNFILES_DIR");
  const fs::path manifest = folder_ / "list_of_files";
  std::ofstream(manifest) << kRunfile << " " << *in_folder << "\n";
  setenv("RUNFILES_MANIFEST_FILE", manifest.c_str(), 1);
  const auto in_manifest = FindProgramFile(kRunfile);
  ASSERT_TRUE(in_manifest.ok()) << in_manifest.status();
  EXPECT_EQ(*in_manifest, *in_folder);
}

TEST_F(ProgramFilesTest, RelativePathsInVariablesAndManifestsAreIgnored) {
  Write(folder_ / "runfiles" / kRunfile);
  setenv("RUNFILES_DIR", "runfiles", 1);
  EXPECT_TRUE(absl::IsNotFound(FindProgramFile(kRunfile).status()));

  unsetenv("RUNFILES_DIR");
  std::ofstream("list_of_files") << kRunfile << " runfiles/" << kRunfile << "\n";
  setenv("RUNFILES_MANIFEST_FILE", "list_of_files", 1);
  EXPECT_TRUE(absl::IsNotFound(FindProgramFile(kRunfile).status()));
  setenv("RUNFILES_MANIFEST_FILE", (folder_ / "list_of_files").c_str(), 1);
  EXPECT_TRUE(absl::IsNotFound(FindProgramFile(kRunfile).status()));
}

TEST_F(ProgramFilesTest, APathLeadsToNoFolderAbove) {
  for (const char* path : {"", "tessera/", "..", "tessera/../../x.txt", "../x.txt"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(FindProgramFile(path).status())) << path;
  }
}

TEST_F(ProgramFilesTest, AFolderIsNoFile) {
  fs::create_directories(folder_ / "runfiles" / kRunfile);
  setenv("RUNFILES_DIR", (folder_ / "runfiles").c_str(), 1);
  EXPECT_TRUE(absl::IsNotFound(FindProgramFile(kRunfile).status()));
}

}  // namespace
}  // namespace tessera
