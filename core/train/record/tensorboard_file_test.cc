#include "core/train/record/tensorboard_file.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/train/record/testing/read_events.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Scalars = std::map<std::string, float>;

class TensorboardFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(::testing::TempDir(), "/",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  absl::StatusOr<std::unique_ptr<TensorboardFile>> Create(int64_t last_step) const {
    const absl::StatusOr<Folder> folder = Folder::Open(folder_);
    if (!folder.ok()) return folder.status();
    return TensorboardFile::Create(*folder, last_step);
  }

  std::string folder_;
};

// RFC 3720, B.4, and the check value of the catalogue of CRCs.
TEST(Crc32cTest, HasTheValuesOfTheStandard) {
  EXPECT_EQ(Crc32c(""), 0);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aa);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43);
  std::string increasing;
  for (int i = 0; i < 32; ++i) increasing += static_cast<char>(i);
  EXPECT_EQ(Crc32c(increasing), 0x46dd794e);
}

TEST_F(TensorboardFileTest, HoldsTheScalarsOfEachStep) {
  const auto before = static_cast<double>(std::time(nullptr));
  const auto file = Create(6);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<TensorboardScalar> seven = {{"loss", 1.0 / 3}, {"mfu(%)", 52}};
  ASSERT_TRUE((*file)->Write(7, seven).ok());
  ASSERT_TRUE((*file)->Write(int64_t{1} << 40, {{"loss", -2}}).ok());

  EXPECT_THAT(EventFilesIn(folder_), ::testing::ElementsAre((*file)->path()));
  const ReadEvents read = ReadEventFile((*file)->path());
  EXPECT_EQ(read.fault, "");
  ASSERT_EQ(read.events.size(), 4);
  EXPECT_EQ(read.events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(read.events[0].step(), 0);
  EXPECT_EQ(read.events[1].session_log().status(), tensorboard::SessionLog::START);
  EXPECT_EQ(read.events[1].step(), 7);
  EXPECT_EQ(read.events[2].step(), 7);
  EXPECT_EQ(ScalarsIn(read.events[2]), (Scalars{{"loss", 1.0F / 3}, {"mfu(%)", 52}}));
  EXPECT_EQ(read.events[3].step(), int64_t{1} << 40);
  EXPECT_EQ(ScalarsIn(read.events[3]), (Scalars{{"loss", -2}}));
  for (const tensorboard::Event& event : read.events) {
    EXPECT_GE(event.wall_time(), before);
    EXPECT_LE(event.wall_time(), static_cast<double>(std::time(nullptr)) + 1);
  }
}

// The bytes that TensorFlow's writer makes of the first event, at time 0.
TEST_F(TensorboardFileTest, BeginsAsEveryEventFile) {
  const auto file = Create(0);
  ASSERT_TRUE(file.ok()) << file.status();
  std::string start(12 + 9 + 2, '\0');
  std::ifstream((*file)->path(), std::ios::binary)
      .read(&start[0], static_cast<int64_t>(start.size()));
  // 24 bytes: wall_time (1 + 8), file_version (2 + 13).
  EXPECT_EQ(start.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
  EXPECT_EQ(start[12], 0x09);
  EXPECT_EQ(start.substr(21), std::string("\x1a\x0d"));
}

TEST_F(TensorboardFileTest, HoldsNumbersThatAreNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto file = Create(0);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Write(1, {{"nan", NAN}, {"infinite", -infinity}}).ok());
  const ReadEvents read = ReadEventFile((*file)->path());
  ASSERT_EQ(read.events.size(), 3);
  Scalars scalars = ScalarsIn(read.events[2]);
  EXPECT_TRUE(std::isnan(scalars["nan"]));
  EXPECT_EQ(scalars["infinite"], -infinity);
}

// TensorBoard reads the files in the order of their names.
TEST_F(TensorboardFileTest, ALaterFileHasALaterName) {
  std::vector<std::string> paths;
  for (int64_t last_step : {0, 10, 5}) {
    const auto file = Create(last_step);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_THAT((*file)->path(),
                ::testing::ContainsRegex("/events\\.out\\.tfevents\\.[0-9]{10}\\.[^/]+$"));
    ASSERT_TRUE((*file)->Write(last_step + 1, {{"loss", 1}}).ok());
    paths.push_back((*file)->path());
  }
  EXPECT_EQ(EventFilesIn(folder_), paths);
  for (const std::string& path : paths) EXPECT_EQ(ReadEventFile(path).events.size(), 3);
}

TEST_F(TensorboardFileTest, IsNotWrittenThroughALink) {
  const std::string victim = folder_ + "/victim";
  std::ofstream(victim) << "unchanged";
  const std::string first = (*Create(0))->path();
  // A link in place of each name that the next file could have.
  const int64_t second = std::stoll(first.substr(first.find("tfevents.") + 9, 10));
  const std::string host = first.substr(first.find("tfevents.") + 9 + 10);
  for (int64_t later = second + 1; later < second + 100; ++later) {
    fs::create_symlink(victim, absl::StrCat(folder_, "/events.out.tfevents.", later, host));
  }
  const auto file = Create(0);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE(fs::is_symlink((*file)->path()));
  EXPECT_EQ(fs::file_size(victim), 9);
}

TEST_F(TensorboardFileTest, NamesAFolderThatCannotBeWritten) {
  if (geteuid() == 0) GTEST_SKIP() << "needs a user other than root, who can write anywhere";
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  const absl::Status status = Create(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), ::testing::HasSubstr(folder_ + "/events.out.tfevents."));
}

// Returns what `body` returns in a child process whose files may have `bytes` bytes.
template <typename Body>
int InChildWithLimit(rlim_t bytes, Body body) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {bytes, bytes};
    _exit(setrlimit(RLIMIT_FSIZE, &limit) != 0 ? 99 : body());
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 98;
  return WEXITSTATUS(status);
}

// A file that may not grow fails as a full disk does, at each byte of a record.
TEST_F(TensorboardFileTest, AFullDiskLeavesCompleteRecords) {
  constexpr int kRecord = 12 + 39 + 4;
  constexpr int kFirstRecords = 12 + 24 + 4 + 12 + 15 + 4;
  for (int more = 1; more < 2 * kRecord; ++more) {
    SCOPED_TRACE(more);
    fs::remove_all(folder_);
    fs::create_directory(folder_);
    const int written = InChildWithLimit(kFirstRecords + more, [this] {
      const auto file = Create(0);
      if (!file.ok()) return 97;
      for (int step = 1; step <= 3; ++step) {
        const absl::Status status = (*file)->Write(step, {{"loss_metrics/loss", 1}});
        if (!status.ok()) {
          const std::string message = absl::StrCat("cannot write ", (*file)->path());
          return status.message().rfind(message, 0) == 0 ? step - 1 : 96;
        }
      }
      return 95;
    });
    EXPECT_EQ(written, more / kRecord);
    ASSERT_EQ(EventFilesIn(folder_).size(), 1);
    const ReadEvents read = ReadEventFile(EventFilesIn(folder_)[0]);
    EXPECT_EQ(read.fault, "");
    EXPECT_EQ(static_cast<int>(read.events.size()), 2 + written);
  }
}

TEST_F(TensorboardFileTest, AFullDiskLeavesNoFileWithoutAnEvent) {
  EXPECT_EQ(InChildWithLimit(50, [this] { return Create(0).ok() ? 1 : 0; }), 0);
  EXPECT_TRUE(EventFilesIn(folder_).empty());
}

// After a failed write the file goes on where its last record ends.
TEST_F(TensorboardFileTest, CanBeWrittenAfterAnError) {
  const int result = InChildWithLimit(RLIM_INFINITY, [this] {
    const auto file = Create(0);
    if (!file.ok()) return 1;
    const rlimit little = {100, RLIM_INFINITY}, unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    if (setrlimit(RLIMIT_FSIZE, &little) != 0) return 2;
    if ((*file)->Write(1, {{"loss_metrics/loss", 1}}).ok()) return 3;
    if (setrlimit(RLIMIT_FSIZE, &unlimited) != 0) return 4;
    return (*file)->Write(2, {{"loss_metrics/loss", 2}}).ok() ? 0 : 5;
  });
  EXPECT_EQ(result, 0);
  const ReadEvents read = ReadEventFile(EventFilesIn(folder_).at(0));
  EXPECT_EQ(read.fault, "");
  ASSERT_EQ(read.events.size(), 3);
  EXPECT_EQ(read.events[2].step(), 2);
}

}  // namespace
}  // namespace tessera
