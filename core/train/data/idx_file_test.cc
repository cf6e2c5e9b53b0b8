#include "core/train/data/idx_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/train/data/testing/idx_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

std::string WriteFile(const std::string& name, absl::string_view contents) {
  std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

std::string DataOf(const IdxFile& file) { return {file.data.begin(), file.data.end()}; }

// Returns the message for contents that are refused, without the path.
std::string MessageFor(absl::string_view contents) {
  const absl::Status status = ParseIdxFile("the/path", contents).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  const std::string message(status.message());
  EXPECT_EQ(message.rfind("the/path: ", 0), 0) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return absl::StrReplaceAll(message, {{"the/path: ", ""}});
}

TEST(IdxFileTest, ReadsAFileCompressedOrNot) {
  const std::string data = SomeBytes(2 * 3 * 4), contents = IdxContents({2, 3, 4}, data);
  // The name does not matter.
  for (const std::string& path :
       {WriteFile("plain", contents), WriteFile("plain.gz", contents),
        WriteFile("compressed", Gzip(contents)), WriteFile("compressed.gz", Gzip(contents))}) {
    const absl::StatusOr<IdxFile> file = ReadIdxFile(path);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->path, path);
    EXPECT_EQ(file->shape, (Shape{2, 3, 4}));
    EXPECT_EQ(DataOf(*file), data);
  }
}

// More than the first allocation, and no multiple of it.
TEST(IdxFileTest, ReadsALargeFile) {
  const uint32_t rows = 1'234'567;
  const std::string data = SomeBytes(int64_t{3} * rows), contents = IdxContents({rows, 3}, data);
  for (const std::string& stored : {contents, Gzip(contents, 1)}) {
    const absl::StatusOr<IdxFile> file = ParseIdxFile("large", stored);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->shape, (Shape{rows, 3}));
    EXPECT_TRUE(DataOf(*file) == data);
  }
}

TEST(IdxFileTest, ReadsOneToEightDimensions) {
  for (int dimensions = 1; dimensions <= 8; ++dimensions) {
    const std::vector<uint32_t> sizes(dimensions, 1);
    const absl::StatusOr<IdxFile> file = ParseIdxFile("ones", IdxContents(sizes, "x"));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->shape, Shape(dimensions, 1));
  }
  EXPECT_EQ(MessageFor(IdxContents({}, "x")), "has 0 dimensions: 1 to 8 would be right");
  EXPECT_EQ(MessageFor(IdxContents(std::vector<uint32_t>(9, 1), "x")),
            "has 9 dimensions: 1 to 8 would be right");
}

TEST(IdxFileTest, KeepsItsDataIfTheFileBecomesShorter) {
  const std::string data = SomeBytes(100'000);
  const std::string path = WriteFile("shorter", IdxContents({100'000}, data));
  const absl::StatusOr<IdxFile> file = ReadIdxFile(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::resize_file(path, 1);
  EXPECT_TRUE(DataOf(*file) == data);
}

TEST(IdxFileTest, NamesAFileThatCannotBeOpened) {
  const std::string missing = ::testing::TempDir() + "/missing";
  const absl::Status status = ReadIdxFile(missing).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              ::testing::StartsWith(missing + ": cannot open the file"));
  EXPECT_THAT(ReadIdxFile(::testing::TempDir()).status().message(),
              ::testing::HasSubstr("is a folder, not a file"));
  EXPECT_THAT(ReadIdxFile(WriteFile("empty", "")).status().message(),
              ::testing::HasSubstr("the file is empty"));
}

TEST(IdxFileTest, NamesWhatIsNoIdxFile) {
  EXPECT_EQ(MessageFor("\x89PNG\r\n"),
            "is no IDX file: it begins with the bytes 89 50 4e 47, and 00 00 08 and the number of "
            "dimensions would be right");
  EXPECT_EQ(MessageFor(Gzip("text")),
            "is no IDX file: it begins with the bytes 74 65 78 74, and 00 00 08 and the number of "
            "dimensions would be right");
  EXPECT_THAT(MessageFor(IdxContents({1}, "x", 0x0a)),
              ::testing::HasSubstr("begins with the bytes 00 00 0a 01"));
}

TEST(IdxFileTest, NamesTypesThatItDoesNotRead) {
  EXPECT_EQ(MessageFor(IdxContents({1}, "1234", 0x0d)),
            "holds 32-bit floating-point numbers (type 0x0d): only unsigned bytes (type 0x08) can "
            "be read");
  for (const auto& [type, name] :
       std::vector<std::pair<int, std::string>>{{0x09, "signed bytes"},
                                                {0x0b, "16-bit integers"},
                                                {0x0c, "32-bit integers"},
                                                {0x0e, "64-bit floating-point numbers"}}) {
    EXPECT_THAT(MessageFor(IdxContents({1}, "12345678", static_cast<uint8_t>(type))),
                ::testing::HasSubstr(absl::StrCat("holds ", name, " (type 0x0")));
  }
}

TEST(IdxFileTest, NamesAnIncompleteHeader) {
  const std::string contents = IdxContents({2, 3}, "");
  for (size_t bytes = 0; bytes < contents.size(); ++bytes) {
    const std::string expected =
        absl::StrCat("ends after ", bytes, bytes == 1 ? " byte" : " bytes",
                     ", within the header of an IDX file: it is incomplete, or no IDX file");
    EXPECT_EQ(MessageFor(contents.substr(0, bytes)), expected);
    EXPECT_EQ(MessageFor(Gzip(contents.substr(0, bytes))), expected);
  }
}

TEST(IdxFileTest, NamesTooFewAndTooManyData) {
  EXPECT_EQ(MessageFor(IdxContents({2, 3}, "12345")),
            "is incomplete or damaged: its dimensions are [2, 3], and a file of 17 bytes holds at "
            "most 5 bytes of data");
  EXPECT_EQ(MessageFor(Gzip(IdxContents({2, 3}, "12345"))),
            "is incomplete: it holds 5 of 6 bytes of data");
  EXPECT_EQ(MessageFor(IdxContents({2, 3}, "1234567")),
            "has more data than its dimensions [2, 3] say: 18 bytes would be right");
  EXPECT_EQ(MessageFor(Gzip(IdxContents({2, 3}, "1234567"))),
            "has more data than its dimensions [2, 3] say: 18 bytes, decompressed, would be right");
  EXPECT_EQ(MessageFor(IdxContents({2, 0, 3}, "")),
            "holds no data: its dimensions are [2, 0, 3], and none may be 0");
}

TEST(IdxFileTest, NamesDamageOfCompressedData) {
  const std::string compressed = Gzip(IdxContents({100}, SomeBytes(100)));
  EXPECT_THAT(MessageFor(compressed.substr(0, compressed.size() - 1)),
              ::testing::HasSubstr("its compressed data are incomplete: they end after"));
  std::string damaged = compressed;
  damaged[damaged.size() - 5] ^= 1;
  EXPECT_THAT(MessageFor(damaged), ::testing::HasSubstr("incorrect data check"));
  EXPECT_THAT(MessageFor(compressed + "x"), ::testing::HasSubstr("1 byte of something else"));
}

// A header must not make this process allocate: these would be more than any machine has, and
// products of sizes that overflow 64 bits.
TEST(IdxFileTest, AllocatesNothingForWhatAHeaderClaims) {
  const uint32_t most = 0xffffffff;
  for (const std::vector<uint32_t>& sizes : {std::vector<uint32_t>{most},
                                             {most, most},
                                             {1u << 31, 1u << 31, 4},
                                             {1u << 16, 1u << 16, 1u << 16, 1u << 16},
                                             std::vector<uint32_t>(8, most)}) {
    EXPECT_THAT(MessageFor(IdxContents(sizes, "12")),
                ::testing::HasSubstr("holds at most 2 bytes of data"));
    EXPECT_THAT(MessageFor(Gzip(IdxContents(sizes, "12"))),
                ::testing::HasSubstr("a gzip file of "));
  }
}

// Data that could be as long as the header claims, but are not, are read until they end.
TEST(IdxFileTest, ACompressedFileMayBeLongEnoughAndIsNot) {
  std::string contents = IdxContents({50'000'000}, "");
  contents.resize(contents.size() + 40'000'000);
  EXPECT_EQ(MessageFor(Gzip(contents, 1)),
            "is incomplete: it holds 40000000 of 50000000 bytes of data");
}

// A sparse file takes no space on the disk, and is as large as it claims.
TEST(IdxFileTest, RefusesAFileLargerThanItCopies) {
  const uint32_t gib = 1u << 30;
  const std::string path = WriteFile("sparse", IdxContents({9, gib}, ""));
  if (truncate(path.c_str(), 12 + 9 * int64_t{gib}) != 0) {
    GTEST_SKIP() << "needs a file system with files of 9 GiB";
  }
  const absl::Status status = ReadIdxFile(path).status();
  EXPECT_EQ(status.message(), absl::StrCat(path,
                                           ": is too large: its dimensions are [9, 1073741824]"
                                           ", and at most 8.00 GiB of data can be read"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera
