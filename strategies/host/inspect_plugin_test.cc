// Checks which files are refused before they are loaded. Some of the libraries would end the
// process.
#include "strategies/host/inspect_plugin.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/posix/file_descriptor.h"
#include "core/posix/program_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

constexpr char kPlugin[] = "strategies/host/testing/crashes.so";

std::string Error(const std::string& path) {
  const auto inspected = InspectPlugin(path);
  EXPECT_FALSE(inspected.ok()) << path;
  std::string message(inspected.status().message());
  EXPECT_THAT(message, HasSubstr("strategy plugin " + path + ": "));
  EXPECT_THAT(message, Not(HasSubstr("\n")));
  return message;
}

class InspectPluginTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::canonical(testing::TempDir()) / "inspect_plugin_test" /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    chmod(folder_.c_str(), 0755);
  }

  // Returns the path of a new file with this text.
  std::string Write(const std::string& name, const std::string& text) const {
    std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << text;
    chmod(path.c_str(), 0644);
    return path;
  }
  std::string Copy(const std::string& name) const { return Write(name, Contents()); }
  static std::string Contents() {
    std::ifstream file(kPlugin, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  fs::path folder_;
};

TEST_F(InspectPluginTest, APluginIsLoadedFromItsPathWithoutLinks) {
  const std::string plugin = Copy("plugin.so");
  fs::create_symlink(plugin, folder_ / "link.so");
  const auto inspected = InspectPlugin((folder_ / "link.so").string());
  ASSERT_TRUE(inspected.ok()) << inspected.status();
  EXPECT_EQ(*inspected, plugin);
}

TEST_F(InspectPluginTest, FilesThatAreNoLibraries) {
  EXPECT_THAT(Error((folder_ / "none.so").string()), HasSubstr("No such file or directory"));
  EXPECT_THAT(Error(Write("empty.so", "")), HasSubstr("it has no ELF header"));
  EXPECT_THAT(Error(Write("text.so", std::string(1000, 'x'))), HasSubstr("it has no ELF header"));
  EXPECT_THAT(Error(folder_.string()), HasSubstr("it is no regular file"));
  EXPECT_THAT(Error("/dev/null"), HasSubstr("it is no regular file"));
  // The symbol is missing in an executable that is position-independent, too.
  EXPECT_THAT(Error(ProgramPath()), HasSubstr(ProgramPath()));
}

// Nobody writes into the pipe, and a process that opens it without care waits.
TEST_F(InspectPluginTest, AFifoDoesNotKeepTheProcessWaiting) {
  const std::string path = (folder_ / "fifo.so").string();
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(Error(path), HasSubstr("it is no regular file"));
}

TEST_F(InspectPluginTest, LibrariesThatAreNoPlugins) {
  EXPECT_THAT(Error("strategies/host/testing/no_symbol.so"),
              HasSubstr("does not export `tessera_strategy`"));
  EXPECT_THAT(Error("strategies/host/testing/no_note.so"),
              HasSubstr("it has no note .note.tessera.strategy"));
  EXPECT_THAT(Error("strategies/host/testing/other_version.so"),
              HasSubstr("it was built for version 9.4 of the strategy interface, and this is "
                        "version 2."));
}

TEST_F(InspectPluginTest, LibrariesForOtherMachines) {
  constexpr size_t kClass = 4, kByteOrder = 5, kType = 16, kMachine = 18;
  for (const size_t offset : {kClass, kByteOrder, kMachine}) {
    std::string contents = Contents();
    contents[offset] = static_cast<char>(contents[offset] ^ 3);
    EXPECT_THAT(Error(Write("other.so", contents)), HasSubstr("for another kind of machine"));
  }
  std::string contents = Contents();
  contents[kType] = 1;  // an object file
  EXPECT_THAT(Error(Write("object.so", contents)), HasSubstr("it is no shared library"));
}

TEST_F(InspectPluginTest, APluginThatOthersCanChange) {
  const std::string plugin = Copy("plugin.so");
  chmod(plugin.c_str(), 0666);
  EXPECT_THAT(Error(plugin), HasSubstr("every user can change the file " + plugin));
  chmod(plugin.c_str(), 0644);
  chmod(folder_.c_str(), 0777);
  EXPECT_THAT(Error(plugin), HasSubstr("every user can change the folder " + folder_.string()));
  chmod(folder_.c_str(), 0755);
  EXPECT_TRUE(InspectPlugin(plugin).ok()) << InspectPlugin(plugin).status();
  // A link is no way around.
  fs::create_directory(folder_ / "open");
  const std::string open = (folder_ / "open" / "plugin.so").string();
  fs::copy_file(plugin, open);
  fs::create_symlink(open, folder_ / "link.so");
  chmod((folder_ / "open").c_str(), 0777);
  EXPECT_TRUE(absl::IsFailedPrecondition(InspectPlugin((folder_ / "link.so").string()).status()));
}

TEST_F(InspectPluginTest, APluginOfAnotherUser) {
  const std::string plugin = Copy("plugin.so");
  if (chown(plugin.c_str(), 65534, 65534) != 0) {
    GTEST_SKIP() << "needs root, to give a file to another user";
  }
  EXPECT_THAT(Error(plugin), HasSubstr("user 65534, who owns it, can change the file " + plugin));
}

// Any error will do, but none may end the process.
TEST_F(InspectPluginTest, ALibraryThatIsCutOff) {
  const std::string path = Copy("cut.so");
  for (size_t bytes = fs::file_size(path); bytes-- > 0;) {
    fs::resize_file(path, bytes);
    ASSERT_FALSE(InspectPlugin(path).ok()) << bytes;
  }
}

TEST_F(InspectPluginTest, ALibraryWithAnyByteChanged) {
  const std::string path = Copy("changed.so"), contents = Contents();
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  for (size_t i = 0; i < contents.size(); ++i) {
    for (const int value : {0xff, contents[i] ^ 0x81}) {
      const char byte = static_cast<char>(value);
      ASSERT_EQ(pwrite(file.get(), &byte, 1, static_cast<off_t>(i)), 1);
      InspectPlugin(path).status().IgnoreError();
    }
    ASSERT_EQ(pwrite(file.get(), &contents[i], 1, static_cast<off_t>(i)), 1);
  }
  EXPECT_TRUE(InspectPlugin(path).ok()) << InspectPlugin(path).status();
}

// Changes several fields at once, mostly in the headers at both ends of the file.
TEST_F(InspectPluginTest, ALibraryWithSomeBytesChanged) {
  const std::string path = Copy("changed.so"), contents = Contents();
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  std::mt19937 random(1);
  const size_t ends = std::min<size_t>(contents.size() / 2, 2048);
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::pair<off_t, size_t>> changed;
    for (int i = 0; i < 3; ++i) {
      const size_t bytes = size_t{1} << random() % 4;
      size_t at = random() % (contents.size() - bytes);
      if (random() % 3 == 0) at = random() % ends;
      if (random() % 3 == 0) at = contents.size() - ends + random() % (ends - bytes);
      const std::string value(bytes, static_cast<char>(random() % 2 == 0 ? 0xff : random()));
      ASSERT_EQ(pwrite(file.get(), value.data(), bytes, static_cast<off_t>(at)), bytes);
      changed.emplace_back(at, bytes);
    }
    InspectPlugin(path).status().IgnoreError();
    for (const auto& [at, bytes] : changed) {
      ASSERT_EQ(pwrite(file.get(), &contents[at], bytes, at), bytes);
    }
  }
}

}  // namespace
}  // namespace tessera
