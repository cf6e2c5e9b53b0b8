#include "core/train/checkpoint/durable_file.h"

#include <sys/stat.h>

#include <memory>
#include <string>

#include "core/posix/folder.h"
#include "core/train/checkpoint/checksum.h"
#include "core/train/checkpoint/testing/test_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DurableFileTest, ReadsWhatWasWritten) {
  const Folder folder = OpenForTest(NewFolder("durable"));
  auto writer = DurableWriter::Create(folder, "file");
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->Write(std::string("hello, ")).ok());
  ASSERT_TRUE(writer->Write({}).ok());
  ASSERT_TRUE(writer->Write(std::string("world")).ok());
  const absl::StatusOr<FileRecord> record = writer->Finish();
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->name, "file");
  EXPECT_EQ(record->bytes, 12);
  EXPECT_EQ(record->checksum, ChecksumOf(std::string("hello, world")));
  EXPECT_EQ(DurableWriter::Create(folder, "file").status().code(),
            absl::StatusCode::kAlreadyExists);

  auto reader = FileReader::Open(folder, "file");
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->bytes(), 12);
  std::string bytes(5, ' ');
  EXPECT_TRUE((*reader)->Read(7, absl::MakeSpan(&bytes[0], 5)).ok());
  EXPECT_EQ(bytes, "world");
  const absl::Status status = (*reader)->Read(8, absl::MakeSpan(&bytes[0], 5));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("ends at byte 12: 1 more bytes"));
}

TEST(DurableFileTest, OpensRegularFilesOnly) {
  const std::string path = NewFolder("durable");
  const Folder folder = OpenForTest(path);
  ASSERT_TRUE(MakeFolders(path + "/folder").ok());
  EXPECT_EQ(FileReader::Open(folder, "folder").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FileReader::Open(folder, "none").status().code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(mkfifo((path + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(FileReader::Open(folder, "pipe").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(DurableFileTest, MakesFolders) {
  const std::string folder = NewFolder("durable");
  EXPECT_TRUE(MakeFolders(folder + "/a/b/c").ok());
  EXPECT_TRUE(Exists(folder + "/a/b/c"));
  EXPECT_TRUE(MakeFolders(folder + "/a/b/c").ok());
  EXPECT_TRUE(MakeFolders(folder + "/d/e//f/").ok());
  EXPECT_TRUE(Exists(folder + "/d/e/f"));
  WriteFile(folder + "/file", "");
  EXPECT_FALSE(MakeFolders(folder + "/file").ok());
  EXPECT_FALSE(MakeFolders(folder + "/file/a").ok());
  EXPECT_FALSE(MakeFolders("/proc/none/a").ok()) << "where nothing can be made";
  EXPECT_THAT(*ListFolder(folder), ElementsAre("a", "d", "file"));
}

TEST(DurableFileTest, ReplacesAFolder) {
  for (bool may_exchange : {true, false}) {
    const std::string folder = NewFolder("durable");
    for (const std::string name : {"/new", "/now"}) {
      ASSERT_TRUE(MakeFolders(folder + name).ok());
      WriteFile(folder + name + "/file", name);
    }
    const absl::Status status =
        ReplaceFolder(OpenForTest(folder), "new", "now", "aside", may_exchange);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(ReadFile(folder + "/now/file"), "/new");
    const std::string old = Exists(folder + "/aside") ? "/aside" : "/new";
    EXPECT_TRUE(may_exchange || old == "/aside");
    EXPECT_EQ(ReadFile(folder + old + "/file"), "/now");
    EXPECT_EQ(ListFolder(folder)->size(), 2u);
  }
}

TEST(DurableFileTest, LeavesAFolderThatItCannotReplace) {
  for (bool may_exchange : {true, false}) {
    const std::string folder = NewFolder("durable");
    ASSERT_TRUE(MakeFolders(folder + "/now").ok());
    EXPECT_FALSE(ReplaceFolder(OpenForTest(folder), "none", "now", "aside", may_exchange).ok());
    EXPECT_THAT(*ListFolder(folder), ElementsAre("now"));
  }
}

}  // namespace
}  // namespace tessera
