#include "core/train/data/picture_dataset.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "core/train/data/testing/idx_files.h"
#include "core/train/data/testing/read_rows.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint32_t kTraining = 7, kTest = 4, kHeight = 3, kWidth = 5;

void Write(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

// Writes the files of a data set. Picture i has label i % 6; training pictures first.
std::string WriteFolder(const std::string& name, uint32_t test_width = kWidth) {
  std::string folder = ::testing::TempDir() + "/" + name;
  std::filesystem::create_directory(folder);
  const auto labels = [](uint32_t first, uint32_t count) {
    std::string bytes;
    for (uint32_t i = 0; i < count; ++i) bytes += static_cast<char>((first + i) % 6);
    return bytes;
  };
  const std::string all = SomeBytes((kTraining + kTest) * kHeight * kWidth);
  const size_t split = size_t{kTraining} * kHeight * kWidth;
  Write(folder + "/train-images-idx3-ubyte",
        IdxContents({kTraining, kHeight, kWidth}, all.substr(0, split)));
  Write(folder + "/train-labels-idx1-ubyte", IdxContents({kTraining}, labels(0, kTraining)));
  Write(folder + "/t10k-images-idx3-ubyte",
        IdxContents({kTest, kHeight, test_width},
                    all.substr(split, size_t{kTest} * kHeight * test_width)));
  Write(folder + "/t10k-labels-idx1-ubyte", IdxContents({kTest}, labels(kTraining, kTest)));
  return folder;
}

std::unique_ptr<PictureDataset> Open(const std::string& folder, uint64_t seed = 1) {
  auto dataset = PictureDataset::Open(folder, 6, seed);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return *std::move(dataset);
}

std::string Picture(const Dataset& dataset, DataSplit split, int64_t row) {
  const auto bytes =
      ReadElements<char>(dataset, split, 0, {{row, 0, 0, 0}, {1, kHeight, kWidth, 1}});
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return std::string(bytes->begin(), bytes->end());
}

int64_t Label(const Dataset& dataset, DataSplit split, int64_t row) {
  return (*ReadElements<int32_t>(dataset, split, 1, {{row}, {1}}))[0];
}

TEST(PictureDatasetTest, EvaluationHasTheTestPicturesInTheirOrder) {
  const auto dataset = Open(WriteFolder("order"));
  EXPECT_EQ(FieldsText(dataset->fields()), "pictures u8[3, 5, 1] and labels i32[]");
  EXPECT_EQ(dataset->fields()[1].limit, 6);
  EXPECT_EQ(dataset->EvaluationRows(), kTest);
  const std::string all = SomeBytes((kTraining + kTest) * kHeight * kWidth);
  for (int64_t row = 0; row < kTest; ++row) {
    EXPECT_EQ(Picture(*dataset, DataSplit::kEvaluate, row), all.substr((kTraining + row) * 15, 15));
    EXPECT_EQ(Label(*dataset, DataSplit::kEvaluate, row), (kTraining + row) % 6);
  }
  EXPECT_EQ(ReadElements<int32_t>(*dataset, DataSplit::kEvaluate, 1, {{3}, {2}}).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST(PictureDatasetTest, AnEpochHasEachPictureOnceWithItsLabel) {
  const auto dataset = Open(WriteFolder("epochs"));
  EXPECT_EQ(dataset->RowsPerEpoch(1), kTraining);
  const std::string all = SomeBytes((kTraining + kTest) * kHeight * kWidth);
  std::set<std::vector<size_t>> orders;
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    std::vector<size_t> order;
    for (int64_t i = 0; i < kTraining; ++i) {
      const int64_t row = epoch * kTraining + i;
      const size_t at = all.find(Picture(*dataset, DataSplit::kTrain, row));
      ASSERT_EQ(at % 15, 0u);
      order.push_back(at / 15);
      EXPECT_EQ(Label(*dataset, DataSplit::kTrain, row), at / 15 % 6);
    }
    orders.insert(order);
    std::sort(order.begin(), order.end());
    for (size_t i = 0; i < kTraining; ++i) EXPECT_EQ(order[i], i);
  }
  EXPECT_EQ(orders.size(), 5u);
}

TEST(PictureDatasetTest, PartsAreThoseOfThePictures) {
  const auto dataset = Open(WriteFolder("parts"));
  // Rows 5 to 8, which belong to two epochs; columns 2 and 3 of the last two lines.
  const auto part =
      ReadElements<char>(*dataset, DataSplit::kTrain, 0, {{5, 1, 2, 0}, {4, 2, 2, 1}});
  ASSERT_TRUE(part.ok()) << part.status();
  for (int64_t row = 0; row < 4; ++row) {
    const std::string picture = Picture(*dataset, DataSplit::kTrain, 5 + row);
    const std::string expected = picture.substr(7, 2) + picture.substr(12, 2);
    EXPECT_EQ(std::string(part->begin() + row * 4, part->begin() + row * 4 + 4), expected);
  }
}

TEST(PictureDatasetTest, TheSeedDeterminesTheOrder) {
  const std::string folder = WriteFolder("seeds");
  const auto order = [](const Dataset& dataset) {
    std::string pictures;
    for (int64_t row = 0; row < 2 * kTraining; ++row) {
      pictures += Picture(dataset, DataSplit::kTrain, row);
    }
    return pictures;
  };
  EXPECT_EQ(order(*Open(folder, 1)), order(*Open(folder, 1)));
  EXPECT_NE(order(*Open(folder, 1)), order(*Open(folder, 2)));
  EXPECT_EQ(Open(folder, 1)->Fingerprint(), Open(folder, 2)->Fingerprint());
  EXPECT_THAT(Open(folder)->Fingerprint(), StartsWith("7 pictures of 3 x 5 x 1, XXH3-128 "));
}

TEST(PictureDatasetTest, LabelsAreClasses) {
  EXPECT_THAT(std::string(PictureDataset::Open(WriteFolder("classes"), 5, 1).status().message()),
              HasSubstr("train-labels-idx1-ubyte: the label of picture 5 is 5"));
}

TEST(PictureDatasetTest, TestPicturesHaveTheSizeOfTheOthers) {
  const auto opened = PictureDataset::Open(WriteFolder("sizes", kWidth - 1), 6, 1);
  EXPECT_THAT(std::string(opened.status().message()),
              HasSubstr("its pictures are [3, 4, 1], and those of "));
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("they must have one size"));
}

TEST(UnlabelledPictureDatasetTest, HasThePicturesOfAFileInTheirOrder) {
  const std::string path = WriteFolder("unlabelled") + "/t10k-images-idx3-ubyte";
  const auto opened = UnlabelledPictureDataset::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const UnlabelledPictureDataset& dataset = **opened;
  EXPECT_EQ(FieldsText(dataset.fields()), "pictures u8[3, 5, 1]");
  EXPECT_EQ(dataset.EvaluationRows(), kTest);
  EXPECT_THAT(dataset.Fingerprint(), StartsWith("4 pictures of 3 x 5 x 1, XXH3-128 "));
  const std::string all = SomeBytes((kTraining + kTest) * kHeight * kWidth);
  for (int64_t row = 0; row < kTest; ++row) {
    EXPECT_EQ(Picture(dataset, DataSplit::kEvaluate, row), all.substr((kTraining + row) * 15, 15));
  }
  const auto training =
      ReadElements<char>(dataset, DataSplit::kTrain, 0, {{0, 0, 0, 0}, {1, kHeight, kWidth, 1}});
  EXPECT_EQ(training.status().code(), absl::StatusCode::kOutOfRange);
}

TEST(UnlabelledPictureDatasetTest, LabelsAreNoPictures) {
  const std::string path = WriteFolder("no_pictures") + "/t10k-labels-idx1-ubyte";
  EXPECT_THAT(std::string(UnlabelledPictureDataset::Open(path).status().message()),
              HasSubstr("holds no pictures: its dimensions are [4]"));
}

}  // namespace
}  // namespace tessera
