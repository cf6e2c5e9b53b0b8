#include "core/train/data/text_check.h"

#include <filesystem>
#include <string>

#include "core/train/checkpoint/checksum.h"
#include "core/train/data/testing/texts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using std::literals::string_literals::operator""s;

// Checks a file of this name.
absl::StatusOr<std::string> Check(const std::string& name, const std::string& contents) {
  const auto file = DataFile::Open(WriteText(name, contents));
  if (!file.ok()) return file.status();
  return CheckText(**file);
}

std::string Error(const std::string& name, const std::string& contents) {
  const auto checked = Check(name, contents);
  EXPECT_EQ(checked.status().code(), absl::StatusCode::kInvalidArgument) << checked.status();
  return std::string(checked.status().message());
}

std::string Repeat(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(TextCheckTest, TheChecksumIsThatOfAllBytes) {
  // Characters of 1 to 4 bytes at all offsets from the borders of chunks and words.
  for (const int offset : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const std::string text =
        std::string(offset, 'x') + Repeat("ab\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\n\t", 100000);
    const auto checked = Check("text", text);
    ASSERT_TRUE(checked.ok()) << checked.status();
    EXPECT_EQ(*checked, ChecksumOf(text));
  }
}

TEST(TextCheckTest, NamesTheByteAtAnyOffset) {
  const std::string plain(600000, 'a');
  for (const int64_t offset : {0, 7, 8, 262143, 262144, 262145, 524289, 599999}) {
    for (const char byte : {'\0', '\xff', '\x80'}) {
      std::string text = plain;
      text[offset] = byte;
      EXPECT_THAT(Error("text", text), HasSubstr(" at offset " + std::to_string(offset) + ", "));
    }
  }
}

// Regression: text of zero and other control bytes was accepted.
TEST(TextCheckTest, RefusesControlBytes) {
  std::string ids;
  for (int i = 0; i < 1000; ++i) ids += {static_cast<char>(1 + i * 7 % 127), '\0'};
  EXPECT_THAT(Error("data.bin", ids), HasSubstr("byte 0x00 at offset 1, in line 1, occurs in no "
                                                "text; it looks like a file of token ids"));
  EXPECT_THAT(Error("ids", Repeat("abcdefg\x01\x1f\x7f", 100)),
              HasSubstr("byte 0x01 at offset 7, in line 1, is the first of 300 control bytes"));
  // A few happen, and some are meant.
  EXPECT_TRUE(Check("text", Repeat("some text", 100) + "\x01").ok());
  EXPECT_TRUE(Check("text", "\x1b[1mbold\x1b[0m\f\v\b\r\n\t").ok());
}

absl::Status CheckBeginning(const std::string& text) {
  const auto file = DataFile::Open(WriteText("text_check_test.txt", text));
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? CheckBeginningOfText(**file) : file.status();
}

TEST(TextCheckTest, ABeginningEndsWithACharacter) {
  for (const int shift : {0, 1, 2}) {
    const std::string text = std::string(shift, 'a') + Repeat("\xe2\x82\xac", 200000);
    EXPECT_TRUE(CheckBeginning(text).ok()) << shift;
    EXPECT_TRUE(CheckBeginning(text + "\xff").ok()) << "it is read no further";
    EXPECT_FALSE(CheckBeginning("\xff" + text).ok());
  }
  EXPECT_FALSE(CheckBeginning("short\xff").ok());
}

// Regression: the file was mapped, and the process was killed (SIGBUS).
TEST(TextCheckTest, AFileThatIsMadeShorterMeanwhileIsAnError) {
  const std::string path = WriteText("shorter.txt", Repeat("some text\n", 100000));
  const auto file = DataFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::resize_file(path, 5000);
  const auto checked = CheckText(**file);
  EXPECT_EQ(checked.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(checked.status().message(),
            path +
                ": the file was changed while it was in use: it had 1000000 bytes when it was "
                "opened, and ends at byte 5000 now");
}

TEST(TextCheckTest, NamesTheFormat) {
  const std::string binary = Repeat("\x80\x00\xfe\x01"s, 50);
  EXPECT_THAT(Error("a", "PAR1" + binary), HasSubstr("looks like a Parquet file: extract its"));
  EXPECT_THAT(Error("a", "\x1f\x8b\x08" + binary), HasSubstr("looks like a gzip archive"));
  EXPECT_THAT(Error("a", "PK\x03\x04" + binary), HasSubstr("looks like a ZIP archive"));
  EXPECT_THAT(Error("a", "\x40\0\0\0\0\0\0\0{\"w\":"s + binary),
              HasSubstr("looks like a safetensors file"));
  EXPECT_THAT(Error("a", "\0\0\x08\x03"s + binary),
              HasSubstr("looks like an IDX file of pictures: a text would be right"));
  EXPECT_THAT(Error("a", "\xff\xfeh\0i\0"s), HasSubstr("in UTF-16: convert it with iconv"));
  EXPECT_THAT(Error("a", Repeat("\0h\0e\0l\0l\0o"s, 20)), HasSubstr("looks like text in UTF-16"));
  EXPECT_THAT(Error("a", Repeat("h\0e\0l\0l\0o\0"s, 20)), HasSubstr("looks like text in UTF-16"));
}

TEST(TextCheckTest, RefusesWhatIsNamedJsonAndIsJson) {
  EXPECT_THAT(Error("a.json", " {\"text\": \"a\"}"), HasSubstr("a.json: is a JSON file"));
  EXPECT_THAT(Error("a.JSONL", "[1]\n"), HasSubstr("to train on them, name it .txt"));
  EXPECT_TRUE(Check("a.txt", "{\"text\": \"a\"}").ok());
  EXPECT_TRUE(Check("a.json", "a text").ok());
}

}  // namespace
}  // namespace tessera
