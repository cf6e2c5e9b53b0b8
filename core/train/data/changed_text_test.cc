// Checks a text that is truncated, rewritten or extended while it is in use.
#include <sys/time.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "core/train/data/testing/read_rows.h"
#include "core/train/data/testing/texts.h"
#include "core/train/data/text_dataset.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// Reads a row of 16 tokens.
absl::Status ReadRow(const Dataset& dataset) {
  return ReadElements(dataset, DataSplit::kTrain, 0, {{0, 0}, {1, 16}}).status();
}

absl::Status ReadAndCompare(const Dataset& dataset) {
  const absl::Status read = ReadRow(dataset);
  return read.ok() ? dataset.Compare() : read;
}

TEST(ChangedTextTest, DetectsATruncatedFile) {
  const std::string path = WriteText("cut.txt", MixedText(100000));
  auto dataset = TextDataset::Open(path, 16, 1);
  ASSERT_TRUE(dataset.ok());
  ASSERT_EQ(truncate(path.c_str(), 100), 0);
  const absl::Status status = ReadAndCompare(**dataset);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("had 100000 bytes"));
}

TEST(ChangedTextTest, DetectsAFileRewrittenAtTheSameSize) {
  const std::string text = MixedText(100000);
  const std::string path = WriteText("rewritten.txt", text);
  auto dataset = TextDataset::Open(path, 16, 1);
  ASSERT_TRUE(dataset.ok());
  const auto read = [&] { return ReadAndCompare(**dataset); };
  // Every change gets a different time, even if the file system's times are coarse.
  int64_t seconds = 1'000'000'000;
  const auto write = [&](const std::string& contents) {
    std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << contents;
    const timeval times[2] = {{++seconds, 0}, {seconds, 0}};
    ASSERT_EQ(utimes(path.c_str(), times), 0);
  };
  write(text);
  EXPECT_TRUE(read().ok()) << "written again as it was";
  std::string other = text;
  other[99999] ^= 1;
  write(other);
  EXPECT_EQ(read().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(read().message()), HasSubstr("the file was changed while it was in use"));
  write(text);
  EXPECT_TRUE(read().ok());
}

// Regression: a read of a large file that was touched took longer than other ranks wait for it.
TEST(ChangedTextTest, AReadDoesNotCompareTheFile) {
  std::string text = MixedText(100000);
  const std::string path = WriteText("touched.txt", text);
  auto dataset = TextDataset::Open(path, 16, 1);
  ASSERT_TRUE(dataset.ok());
  int64_t seconds = 1'000'000'000;
  const auto touch = [&] {
    const timeval times[2] = {{++seconds, 0}, {seconds, 0}};
    ASSERT_EQ(utimes(path.c_str(), times), 0);
  };
  EXPECT_FALSE((*dataset)->MustCompare());
  touch();
  EXPECT_TRUE(ReadRow(**dataset).ok());
  EXPECT_TRUE((*dataset)->MustCompare()) << "the read has not compared it";
  EXPECT_TRUE((*dataset)->Compare().ok());
  EXPECT_FALSE((*dataset)->MustCompare());

  text[99999] ^= 1;
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << text;
  touch();
  EXPECT_TRUE(ReadRow(**dataset).ok());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE((*dataset)->MustCompare());
    EXPECT_EQ((*dataset)->Compare().code(), absl::StatusCode::kFailedPrecondition);
  }
  ASSERT_EQ(truncate(path.c_str(), 99999), 0);
  EXPECT_TRUE((*dataset)->MustCompare());
}

// Regression: text that was appended ended the run.
TEST(ChangedTextTest, AnAppendIsHarmless) {
  const std::string text = MixedText(100000);
  const std::string path = WriteText("appended.txt", text);
  auto dataset = TextDataset::Open(path, 16, 1);
  ASSERT_TRUE(dataset.ok());
  const std::string fingerprint = (*dataset)->Fingerprint();
  std::ofstream(path, std::ios::binary | std::ios::app) << "more";
  const absl::Status status = ReadAndCompare(**dataset);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ((*dataset)->Fingerprint(), fingerprint);
}

// Regression: all of a growing text was read again at each change. It is compared by samples, which
// do not see one changed byte between them, but all that shifts what follows.
TEST(ChangedTextTest, AGrowingFileIsComparedBySamples) {
  const std::string text = MixedText(1000000);
  const std::string path = WriteText("growing.txt", text);
  auto dataset = TextDataset::Open(path, 16, 1);
  ASSERT_TRUE(dataset.ok());
  const auto read_from = [&](const std::string& contents) {
    WriteText("growing.txt", contents);
    return ReadAndCompare(**dataset);
  };
  std::string changed = text;
  changed[10000] ^= 1;
  EXPECT_TRUE(read_from(changed + "more").ok());
  EXPECT_TRUE(read_from(text + "more and more").ok());
  for (const size_t at : {size_t{0}, size_t{10000}, size_t{500000}, text.size() - 1}) {
    std::string inserted = text;
    inserted.insert(at, "an insertion, and more and more");
    EXPECT_EQ(read_from(inserted).code(), absl::StatusCode::kFailedPrecondition) << at;
  }
  // Without growth, one changed byte is seen.
  EXPECT_EQ(read_from(changed + "12345").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(read_from(text + "12345").ok());
}

// Regression: it was read through a map, which kills the process where the file has been truncated.
TEST(ChangedTextTest, AFileThatIsTruncatedWhileItIsReadIsAnError) {
  const std::string path = WriteText("read.txt", MixedText(100000));
  const auto file = TextDataset::OpenFile(path, 16);
  ASSERT_TRUE(file.ok());
  std::vector<char> bytes(100);
  EXPECT_TRUE((*file)->ReadAt(99900, absl::MakeSpan(bytes)).ok());
  ASSERT_EQ(truncate(path.c_str(), 99950), 0);
  const absl::Status status = (*file)->ReadAt(99900, absl::MakeSpan(bytes));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("it had 100000 bytes when it was opened, and ends at byte 99950 now"));
}

}  // namespace
}  // namespace tessera
