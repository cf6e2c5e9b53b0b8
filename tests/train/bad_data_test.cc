// Checks that data which cannot be read, or are not what a model reads, result in one line that
// names them and what would be right, within a second, and that nothing is left behind.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/train/data/testing/idx_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/train/picture_runs.h"
#include "tests/train/program.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

// The files of PictureFolder(): pictures of 6 x 6, of ten classes.
constexpr char kPictures[] = "/train-images-idx3-ubyte";
constexpr char kLabels[] = "/train-labels-idx1-ubyte";
constexpr uint32_t kTraining = 24, kEvaluated = 25, kSide = 6;

std::vector<std::string> Ratings(const std::vector<std::string>& more) {
  std::vector<std::string> flags = {"--steps=2", "--threads=1", "--kernels=default"};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// Runs a program with data that it must refuse, and returns its line without "error: ".
std::string Refused(const std::string& program, std::vector<std::string> flags,
                    const std::string& data) {
  const std::string parent = NewFolder();
  flags.insert(flags.end(), {"--data=" + data, "--out=" + parent + "/run"});
  [[maybe_unused]] const auto begin = std::chrono::steady_clock::now();
  const Result result = RunProgram(program, flags);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // On a machine that is busy with other tests; alone it takes a tenth.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << data;
#endif
  EXPECT_EQ(result.code, 1) << result.signal << result.out << result.err;
  EXPECT_THAT(result.err, StartsWith("error: "));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_TRUE(fs::is_empty(parent)) << "a run that cannot begin leaves nothing";
  const std::string start = "error: ";
  return result.err.substr(std::min(start.size(), result.err.size()));
}

std::string RefusedPictures(const std::string& data) {
  return Refused(VggProgram(), TinyPictures(data, {}), data);
}

// Returns the contents of a file of as many pictures.
std::string Pictures(uint32_t count, uint32_t height = kSide) {
  return IdxContents({count, height, kSide}, SomeBytes(int64_t{count} * height * kSide));
}
std::string Labels(uint32_t count, char last = 0) {
  return IdxContents({count}, std::string(count - 1, '\1') + last);
}

TEST(BadDataTest, FilesOfPictures) {
  const std::string good = Pictures(kTraining), gzip = Gzip(good);
  std::string wrong_crc = gzip, wrong_magic = good;
  wrong_crc[wrong_crc.size() - 6] ^= 1;
  wrong_magic[0] = 1;
  const uint32_t kMost = UINT32_MAX;
  const struct {
    const char* what;
    std::string contents;
    const char* part;
  } cases[] = {
      {"compressed and truncated", gzip.substr(0, gzip.size() / 2),
       ": its compressed data are incomplete: they end after "},
      {"truncated in the checksum", gzip.substr(0, gzip.size() - 3), "data are incomplete"},
      {"truncated in the header of gzip", gzip.substr(0, 5), "data are incomplete"},
      {"a wrong checksum", wrong_crc, ": its compressed data are damaged before byte "},
      {"more after gzip", gzip + "abc", " are followed by 3 bytes of something else"},
      {"a wrong magic", wrong_magic, ": is no IDX file: it begins with the bytes 01 00 08 03"},
      {"a wrong magic, compressed", Gzip(wrong_magic), ": is no IDX file"},
      {"floats", IdxContents({kTraining, kSide, kSide}, SomeBytes(4 * 24 * 36), 0x0d),
       ": holds 32-bit floating-point numbers (type 0x0d): only unsigned bytes"},
      {"two dimensions", IdxContents({kTraining, 36}, SomeBytes(24 * 36)),
       ": holds no pictures: its dimensions are [24, 36]"},
      {"nine dimensions", IdxContents({24, 6, 6, 1, 1, 1, 1, 1, 1}, SomeBytes(24 * 36)),
       ": has 9 dimensions: 1 to 8 would be right"},
      {"no dimension", IdxContents({}, ""), ": has 0 dimensions"},
      {"sizes of 2^31", IdxContents({1u << 31, kSide, kSide}, SomeBytes(24 * 36)),
       ": is incomplete or damaged: its dimensions are [2147483648, 6, 6]"},
      {"a product of 2^64", IdxContents({1u << 31, 1u << 31, 4}, SomeBytes(24)),
       ": is incomplete or damaged"},
      {"sizes that overflow, compressed", Gzip(IdxContents({kMost, kMost, kMost}, SomeBytes(24))),
       ": is incomplete or damaged"},
      {"no rows", IdxContents({0, kSide, kSide}, ""), ": holds no data"},
      {"a byte short", good.substr(0, good.size() - 1), ": is incomplete or damaged"},
      {"a byte short, compressed", Gzip(good.substr(0, good.size() - 1)),
       ": is incomplete: it holds 863 of 864 bytes of data"},
      {"a byte more", good + "x", ": has more data than its dimensions [24, 6, 6] say"},
      {"within the header", good.substr(0, 3), ": ends after 3 bytes, within the header"},
      {"empty", "", ": the file is empty"},
      {"fewer pictures than labels", Pictures(kTraining - 1),
       ": holds 24 labels for the 23 pictures of "},
      {"more pictures than labels", Pictures(kTraining + 1), ": holds 24 labels for the 25 "},
      {"pictures of another size than those to evaluate", Pictures(kTraining, kSide + 1),
       ": they must have one size"},
  };
  const std::string folder = PictureFolder();
  for (const auto& each : cases) {
    SCOPED_TRACE(each.what);
    WriteFile(folder + kPictures, each.contents);
    EXPECT_THAT(RefusedPictures(folder), AllOf(StartsWith(folder), HasSubstr(each.part)));
  }
}

TEST(BadDataTest, FilesOfLabels) {
  const struct {
    std::string contents;
    const char* part;
  } cases[] = {
      {Labels(kTraining, 10),
       ": the label of picture 23 is 10: with 10 classes 0 to 9 would be right"},
      {Gzip(Labels(kTraining, 10)), ": the label of picture 23 is 10"},
      {Labels(kTraining + 1), ": holds 25 labels for the 24 pictures of "},
      {IdxContents({kTraining, 1}, SomeBytes(kTraining)), ": holds no labels"},
  };
  const std::string folder = PictureFolder();
  for (const auto& each : cases) {
    SCOPED_TRACE(each.part);
    WriteFile(folder + kLabels, each.contents);
    EXPECT_THAT(RefusedPictures(folder), AllOf(StartsWith(folder + kLabels), HasSubstr(each.part)));
  }
}

TEST(BadDataTest, FoldersOfPictures) {
  const struct {
    const char* what;
    std::function<void(const std::string& folder)> change;
    const char* part;
  } cases[] = {
      {"without labels", [](const std::string& folder) { fs::remove(folder + kLabels); },
       ": holds no train-labels-idx1-ubyte: the four files of MNIST would be right"},
      {"without files",
       [](const std::string& folder) {
         fs::remove_all(folder);
         fs::create_directory(folder);
       },
       ": holds no train-images-idx3-ubyte, no train-labels-idx1-ubyte, no t10k-"},
      {"pictures of another size than the model's",
       [](const std::string& folder) {
         WriteFile(folder + kPictures, Pictures(kTraining, kSide + 1));
         WriteFile(folder + "/t10k-images-idx3-ubyte", Pictures(kEvaluated, kSide + 1));
       },
       ": the model reads pictures u8[6, 6, 1] in each row, and the data have pictures u8[7, 6, "
       "1]"},
      {"with a folder as a file",
       [](const std::string& folder) {
         fs::remove(folder + kPictures);
         fs::create_directory(folder + kPictures);
       },
       "/train-images-idx3-ubyte: is a folder, not a file"},
      {"with a pipe as a file",
       [](const std::string& folder) {
         fs::remove(folder + kPictures);
         ASSERT_EQ(mkfifo((folder + kPictures).c_str(), 0600), 0);
       },
       "/train-images-idx3-ubyte: is not a regular file"},
      {"with a device as a file",
       [](const std::string& folder) {
         fs::remove(folder + kLabels);
         fs::create_symlink("/dev/zero", folder + kLabels);
       },
       "/train-labels-idx1-ubyte: is not a regular file"},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.what);
    const std::string folder = PictureFolder();
    each.change(folder);
    EXPECT_THAT(RefusedPictures(folder), AllOf(StartsWith(folder), HasSubstr(each.part)));
  }
}

// A model of pictures on texts and the like, the reverse, and a model with inputs that no file has.
TEST(BadDataTest, DataOfOtherModels) {
  const std::string pictures = PictureFolder(), file = pictures + kPictures, text = TextFile();
  const std::string ids = NewFolder() + "/ids.bin";
  std::string numbers;
  for (int i = 0; i < 1000; ++i) numbers += {static_cast<char>(i * 37), static_cast<char>(i % 190)};
  WriteFile(ids, numbers);
  const char* const kNoPictures =
      ": the model reads pictures u8[6, 6, 1] and labels i32[] in each row, and rows of text have "
      "tokens and targets: --data may be a folder of pictures, in the files of MNIST, or "
      "fashion-mnist; or synthetic, for random rows\n";
  for (const std::string& data : {text, ids, file}) {
    EXPECT_EQ(RefusedPictures(data), data + kNoPictures);
  }
  EXPECT_EQ(RefusedPictures(""), std::string("the text that comes with the program") + kNoPictures);
  const std::string no_tokens =
      " in each row, and rows of pictures have pictures and labels: --data may be a UTF-8 text";
  for (const std::string& data : {pictures, std::string("fashion-mnist")}) {
    EXPECT_THAT(Refused(GptProgram(), TinyFlags(), data),
                StartsWith(absl::StrCat(
                    data, ": the model reads tokens i32[16] and targets i32[16]", no_tokens)));
    EXPECT_THAT(Refused(MlpProgram(), {}, data), AllOf(StartsWith(data), HasSubstr(no_tokens)));
  }
  EXPECT_THAT(Refused(GptProgram(), TinyFlags(), file),
              AllOf(StartsWith(file + ": is not UTF-8 text: byte 0x00 at offset 0, in line 1,"),
                    HasSubstr("; it looks like an IDX file of pictures")));
  EXPECT_THAT(Refused(GptProgram(), TinyFlags(), ids),
              AllOf(StartsWith(ids), HasSubstr("looks like a file of token ids")));
  for (const std::string& data : {pictures, text, ids}) {
    EXPECT_THAT(Refused(RatingsProgram(), Ratings({}), data),
                AllOf(StartsWith(data + ": the model reads user i32[], item i32[] and stars i32[] "
                                        "in each row, and rows of "),
                      HasSubstr(": --data may be synthetic, for random rows")));
  }
}

// Paths that lead to nothing that could be read.
TEST(BadDataTest, Paths) {
  const std::string folder = NewFolder();
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  fs::create_symlink(folder + "/loop", folder + "/loop");
  fs::create_symlink("/nowhere", folder + "/dangling");
  const std::string text = TextFile();
  const struct {
    std::string data;
    const char* part;
  } cases[] = {
      {folder + "/pipe", "/pipe: is not a regular file"},
      {"/dev/null", "/dev/null: is not a regular file"},
      {"/dev/zero", "/dev/zero: is not a regular file"},
      {folder + "/loop", "/loop: cannot be opened: Too many levels of symbolic links"},
      {folder + "/dangling", "/dangling: there is no such file or folder; --data takes "},
      {text + "/x", "/x: cannot be opened: Not a directory"},
      {folder + "/synthetik", "random rows; did you mean 'synthetic'?"},
      {std::string(5000, 'x'), ": cannot be opened: File name too long"},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.data.substr(0, 100));
    EXPECT_THAT(Refused(GptProgram(), TinyFlags(), each.data), HasSubstr(each.part));
  }
  EXPECT_THAT(RefusedPictures(folder + "/fashon-mnist"),
              HasSubstr("; did you mean 'fashion-mnist'"));
}

TEST(BadDataTest, AFileWithoutPermission) {
  if (geteuid() == 0) GTEST_SKIP() << "needs a user other than root, who may read every file";
  const std::string file = NewFolder() + "/text.txt";
  WriteFile(file, ReadFile(TextFile()));
  ASSERT_EQ(chmod(file.c_str(), 0), 0);
  EXPECT_EQ(Refused(GptProgram(), TinyFlags(), file),
            file + ": cannot open the file: Permission denied\n");
}

}  // namespace
}  // namespace tessera
