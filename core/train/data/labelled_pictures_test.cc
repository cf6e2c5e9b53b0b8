#include "core/train/data/labelled_pictures.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/train/data/testing/idx_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string WriteFile(const std::string& path, absl::string_view contents) {
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}
std::string PathFor(const std::string& name) { return ::testing::TempDir() + "/" + name; }

IdxFile File(const std::string& path, const Shape& shape, const std::string& data) {
  return {path, shape, {data.begin(), data.end()}};
}

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

std::string MessageFor(const Shape& pictures, const std::string& labels, int classes) {
  const int64_t count = static_cast<int64_t>(labels.size());
  const absl::Status status =
      JoinLabels(File("pictures", pictures, SomeBytes(NumElements(pictures))),
                 File("labels", {count}, labels), classes)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return MessageOf(status);
}

TEST(LabelledPicturesTest, ReadsTwoFiles) {
  const std::string pixels = SomeBytes(3 * 4 * 5);
  const std::string pictures = WriteFile(PathFor("pictures"), Gzip(IdxContents({3, 4, 5}, pixels)));
  const std::string labels = WriteFile(PathFor("labels"), IdxContents({3}, {"\x09\x00\x05", 3}));
  const absl::StatusOr<LabelledPictures> read = ReadLabelledPictures(pictures, labels, 10);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->count, 3);
  EXPECT_EQ(read->height, 4);
  EXPECT_EQ(read->width, 5);
  EXPECT_EQ(read->channels, 1);
  EXPECT_EQ(std::string(read->pixels.begin(), read->pixels.end()), pixels);
  EXPECT_THAT(read->labels, ::testing::ElementsAre(9, 0, 5));
}

TEST(LabelledPicturesTest, ChannelsAreLast) {
  const absl::StatusOr<LabelledPictures> read = JoinLabels(
      File("pictures", {2, 3, 4, 5}, SomeBytes(120)), File("labels", {2}, "\x01\x01"), 2);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->height, 3);
  EXPECT_EQ(read->width, 4);
  EXPECT_EQ(read->channels, 5);
}

TEST(LabelledPicturesTest, NamesFilesThatDoNotFitEachOther) {
  const std::string zeros(2, '\0');
  EXPECT_EQ(MessageFor({2, 3}, zeros, 10),
            "pictures: holds no pictures: its dimensions are [2, 3], and [count, height, width] or "
            "[count, height, width, channels] would be right");
  EXPECT_THAT(MessageFor({2, 1, 1, 1, 1}, zeros, 10), StartsWith("pictures: holds no pictures"));
  EXPECT_EQ(MessageFor({3, 1, 1}, zeros, 10),
            "labels: holds 2 labels for the 3 pictures of pictures: as many would be right");
  EXPECT_EQ(MessageFor({1, 1, 1}, zeros, 10),
            "labels: holds 2 labels for the 1 picture of pictures: as many would be right");
  EXPECT_EQ(JoinLabels(File("pictures", {2, 1, 1}, "12"), File("labels", {1, 2}, "12"), 10)
                .status()
                .message(),
            "labels: holds no labels: its dimensions are [1, 2], and [count] would be right");
}

TEST(LabelledPicturesTest, NamesALabelThatIsNoClass) {
  EXPECT_EQ(MessageFor({3, 1, 1}, "\x01\x09\x0a", 10),
            "labels: the label of picture 2 is 10: with 10 classes 0 to 9 would be right");
  const absl::StatusOr<LabelledPictures> all_bytes =
      JoinLabels(File("pictures", {1, 1, 1}, "x"), File("labels", {1}, "\xff"), 256);
  EXPECT_TRUE(all_bytes.ok()) << all_bytes.status();
  EXPECT_THAT(MessageFor({1, 1, 1}, "\xff", 255), HasSubstr("the label of picture 0 is 255"));
  for (int classes : {-1, 0, 257}) {
    EXPECT_THAT(MessageFor({1, 1, 1}, "\x01", classes), HasSubstr("1 to 256 would be right"));
  }
}

TEST(LabelledPicturesTest, NamesTheFileThatCannotBeRead) {
  const std::string good = WriteFile(PathFor("one"), IdxContents({1}, "x"));
  const std::string missing = PathFor("no_such_file");
  EXPECT_THAT(MessageOf(ReadLabelledPictures(missing, good, 256).status()), StartsWith(missing));
  EXPECT_THAT(MessageOf(ReadLabelledPictures(good, missing, 256).status()), StartsWith(missing));
}

TEST(LabelledPicturesTest, TheFingerprintIsThatOfTheData) {
  const auto fingerprint = [](const Shape& shape, const std::string& pixels,
                              const std::string& labels) {
    return JoinLabels(File("a", shape, pixels), File("b", {shape[0]}, labels), 256)->Fingerprint();
  };
  const std::string one = fingerprint({2, 2, 3}, SomeBytes(12), "12");
  EXPECT_EQ(one, fingerprint({2, 2, 3, 1}, SomeBytes(12), "12"));
  EXPECT_THAT(one, StartsWith("2 pictures of 2 x 3 x 1, XXH3-128 "));
  EXPECT_NE(one, fingerprint({2, 3, 2}, SomeBytes(12), "12"));
  EXPECT_NE(one, fingerprint({2, 2, 3}, SomeBytes(12), "13"));
  EXPECT_NE(one, fingerprint({2, 2, 3}, "x" + SomeBytes(11), "12"));

  // Compression does not change it.
  const std::string contents = IdxContents({2, 2, 3}, SomeBytes(12));
  const std::string labels = WriteFile(PathFor("two_labels"), Gzip(IdxContents({2}, "12")));
  for (const std::string& stored : {contents, Gzip(contents)}) {
    const auto read = ReadLabelledPictures(WriteFile(PathFor("two"), stored), labels, 256);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->Fingerprint(), one);
  }
}

// The data set that Debian's package dataset-fashion-mnist installs.
TEST(LabelledPicturesTest, ReadsFashionMnist) {
  const absl::StatusOr<PictureFolder> found = FindPictures("/usr/share/datasets/fashion-mnist");
  if (absl::IsNotFound(found.status())) {
    GTEST_SKIP() << "needs Debian's package dataset-fashion-mnist: " << found.status().message();
  }
  ASSERT_TRUE(found.ok()) << found.status();
  const auto expect = [](const LabelledPicturesPaths& paths, int64_t count,
                         const std::string& checksum) {
    const auto read = ReadLabelledPictures(paths.pictures, paths.labels, 10);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->Fingerprint(),
              absl::StrCat(count, " pictures of 28 x 28 x 1, XXH3-128 ", checksum));
    // As many of each class.
    std::vector<int64_t> labels(10, 0);
    for (uint8_t label : read->labels) ++labels[label];
    EXPECT_EQ(labels, std::vector<int64_t>(10, count / 10));
  };
  expect(found->train, 60'000, "722bb52b5d65e83562317e8059a30d27");
  expect(found->test, 10'000, "616582a7efbc97b4d5bdb45c1f089691");
}

class FindPicturesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = PathFor("data_set");
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }

  void Make(const std::string& name) const { WriteFile(folder_ + "/" + name, "x"); }

  std::string folder_;
};

TEST_F(FindPicturesTest, FindsFilesWithAndWithoutGz) {
  Make("train-images-idx3-ubyte.gz");
  Make("train-labels-idx1-ubyte");
  Make("t10k-images-idx3-ubyte");
  Make("t10k-images-idx3-ubyte.gz");
  Make("t10k-labels-idx1-ubyte.gz");
  const absl::StatusOr<PictureFolder> found = FindPictures(folder_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->train.pictures, folder_ + "/train-images-idx3-ubyte.gz");
  EXPECT_EQ(found->train.labels, folder_ + "/train-labels-idx1-ubyte");
  EXPECT_EQ(found->test.pictures, folder_ + "/t10k-images-idx3-ubyte");
  EXPECT_EQ(found->test.labels, folder_ + "/t10k-labels-idx1-ubyte.gz");
}

TEST_F(FindPicturesTest, NamesAllThatIsMissing) {
  Make("train-images-idx3-ubyte.gz");
  Make("t10k-images-idx3-ubyte");
  const absl::Status status = FindPictures(folder_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            folder_ +
                ": holds no train-labels-idx1-ubyte, no t10k-labels-idx1-ubyte: the four "
                "files of MNIST would be right, each with or without .gz after its name");
}

TEST_F(FindPicturesTest, NamesWhatIsNoFolder) {
  Make("file");
  EXPECT_THAT(MessageOf(FindPictures(folder_ + "/file").status()),
              StartsWith(folder_ + "/file: is a file"));
  const absl::Status status = FindPictures(folder_ + "/missing").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(status), StartsWith(folder_ + "/missing: cannot open the folder"));
}

}  // namespace
}  // namespace tessera
