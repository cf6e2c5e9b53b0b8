#include "tools/launch/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/reflection.h"

namespace tessera::comm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class LaunchFlagsTest : public ::testing::Test {
 protected:
  static LaunchCommandLine Parse(const std::vector<std::string>& arguments) {
    const auto line = ParseLaunchCommandLine(arguments);
    EXPECT_TRUE(line.ok()) << line.status();
    return line.ok() ? *line : LaunchCommandLine();
  }
  static std::string Error(const std::vector<std::string>& arguments) {
    return std::string(ParseLaunchCommandLine(arguments).status().message());
  }

 private:
  absl::FlagSaver saver_;  // each test starts with the defaults
};

TEST_F(LaunchFlagsTest, EverythingAfterTheProgramIsPassedToIt) {
  const LaunchCommandLine line =
      Parse({"--nproc", "3", "train", "--nproc=4", "--help", "--version", "-x"});
  EXPECT_EQ(line.nproc, 3);
  EXPECT_EQ(line.times.grace, std::chrono::seconds(5));
  EXPECT_EQ(line.program, "train");
  EXPECT_THAT(line.arguments, ElementsAre("--nproc=4", "--help", "--version", "-x"));
  EXPECT_FALSE(line.help || line.version);
  EXPECT_EQ(Parse({"--nproc=2", "--grace=0.25", "--", "--odd"}).program, "--odd");
  EXPECT_EQ(Parse({"--nproc=2", "--grace=0.25", "x"}).times.grace, std::chrono::milliseconds(250));
  EXPECT_EQ(line.max_restarts, 0);
  EXPECT_EQ(Parse({"--nproc=2", "--max_restarts=3", "x"}).max_restarts, 3);
  const LaunchCommandLine as_torchrun = Parse({"--nproc-per-node=4", "--max-restarts=2", "x"});
  EXPECT_EQ(as_torchrun.nproc, 4);
  EXPECT_EQ(as_torchrun.max_restarts, 2);
  EXPECT_TRUE(Parse({"--nproc=2", "--help"}).help);
  EXPECT_TRUE(Parse({"--nproc=2", "--version"}).version);
}

TEST_F(LaunchFlagsTest, ErrorsSayWhatWouldBeRight) {
  EXPECT_THAT(Error({}), HasSubstr("--nproc"));
  EXPECT_THAT(Error({"train"}), HasSubstr("--nproc=2"));
  EXPECT_THAT(Error({"--nproc=0", "train"}), HasSubstr("--nproc=0"));
  EXPECT_THAT(Error({"--nproc=-1", "train"}), HasSubstr("--nproc=-1"));
  EXPECT_THAT(Error({"--nproc=1000000", "train"}), HasSubstr("from 1 to 1024"));
  EXPECT_THAT(Error({"--nproc=two", "train"}), HasSubstr("'two' is not a whole number"));
  EXPECT_THAT(Error({"--nproc=2"}), HasSubstr("no program"));
  EXPECT_THAT(Error({"--nprocs=2", "train"}),
              AllOf(HasSubstr("there is no flag '--nprocs'"), HasSubstr("did you mean 'nproc'")));
  EXPECT_THAT(Error({"--nproc=2", "--grace=-1", "train"}), HasSubstr("--grace=-1"));
  EXPECT_THAT(Error({"--nproc=2", "--grace=nan", "train"}), HasSubstr("--grace=nan"));
  EXPECT_THAT(Error({"--nproc=2", "--grace=1", "--max_restarts=-1", "train"}),
              HasSubstr("--max_restarts=-1"));
}

TEST_F(LaunchFlagsTest, HelpNamesEveryFlag) {
  EXPECT_THAT(LaunchHelpText(),
              AllOf(HasSubstr("--nproc=N"), HasSubstr("--grace=X"), HasSubstr("--max_restarts=N"),
                    HasSubstr("Examples"), HasSubstr("TESSERA_RESTART_COUNT"),
                    HasSubstr("(default 5)"), Not(HasSubstr("machine (default"))));
}

TEST(FindProgramTest, FindsPathsAndNames) {
  const std::string folder = testing::TempDir() + "/find_program";
  std::filesystem::create_directories(folder + "/folder");
  std::ofstream(folder + "/text") << "text";
  std::ofstream(folder + "/program") << "#!/bin/sh\n";
  chmod((folder + "/program").c_str(), 0755);
  chmod((folder + "/text").c_str(), 0644);

  EXPECT_EQ(*FindProgram(folder + "/program", ""), folder + "/program");
  EXPECT_EQ(*FindProgram("program", "/nowhere:" + folder), folder + "/program");
  const auto error = [](const std::string& program, const std::string& path) {
    return std::string(FindProgram(program, path).status().message());
  };
  EXPECT_THAT(error(folder + "/none", ""), HasSubstr("there is no such file"));
  EXPECT_THAT(error(folder + "/folder", ""), HasSubstr("it is a folder"));
  EXPECT_THAT(error(folder + "/text", ""), HasSubstr("is not executable"));
  EXPECT_THAT(error("text", folder), HasSubstr("is not executable"));
  EXPECT_THAT(error("none", folder), HasSubstr("in $PATH"));
  EXPECT_THAT(error("", folder), HasSubstr("cannot start ''"));
}

}  // namespace
}  // namespace tessera::comm
