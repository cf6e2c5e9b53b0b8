#include "core/train/data/synthetic_dataset.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

struct Batch {
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;
};

Batch ReadPart(const Dataset& dataset, DataSplit split, int64_t index, BatchShape shape,
               IndexRange rows, IndexRange columns) {
  Batch batch;
  batch.tokens.resize(rows.size() * columns.size());
  batch.targets.resize(rows.size() * columns.size());
  const absl::Status status =
      dataset.Read(split, index * shape.batch, shape, rows, columns, absl::MakeSpan(batch.tokens),
                   absl::MakeSpan(batch.targets));
  EXPECT_TRUE(status.ok()) << status;
  return batch;
}

TEST(SyntheticDatasetTest, PartsAreThoseOfTheGlobalBatch) {
  auto dataset = SyntheticDataset::Create(1000, 3);
  ASSERT_TRUE(dataset.ok());
  const BatchShape shape{5, 10};
  const Batch all = ReadPart(**dataset, DataSplit::kTrain, 2, shape, {0, 5}, {0, 10});
  for (int64_t row = 0; row < 5; ++row) {
    for (int64_t column = 0; column < 10; ++column) {
      const Batch one =
          ReadPart(**dataset, DataSplit::kTrain, 2, shape, {row, row + 1}, {column, column + 1});
      EXPECT_EQ(one.tokens[0], all.tokens[row * 10 + column]);
      EXPECT_EQ(one.targets[0], all.targets[row * 10 + column]);
      if (column > 0) {
        EXPECT_EQ(all.tokens[row * 10 + column], all.targets[row * 10 + column - 1]);
      }
    }
  }
  EXPECT_TRUE(ReadPart(**dataset, DataSplit::kTrain, 2, shape, {0, 5}, {3, 3}).tokens.empty());
}

TEST(SyntheticDatasetTest, FillsTheVocabularyEvenly) {
  auto dataset = SyntheticDataset::Create(50, 3);
  ASSERT_TRUE(dataset.ok());
  const Batch batch = ReadPart(**dataset, DataSplit::kTrain, 0, {100, 500}, {0, 100}, {0, 500});
  std::vector<int> counts(50);
  for (int32_t token : batch.tokens) {
    ASSERT_TRUE(token >= 0 && token < 50);
    ++counts[token];
  }
  for (int count : counts) EXPECT_NEAR(count, 1000, 160);
}

TEST(SyntheticDatasetTest, DependsOnSeedSplitAndBatch) {
  auto a = SyntheticDataset::Create(50000, 3), b = SyntheticDataset::Create(50000, 4);
  ASSERT_TRUE(a.ok() && b.ok());
  const auto tokens = [](const Dataset& dataset, DataSplit split, int64_t index) {
    return ReadPart(dataset, split, index, {2, 8}, {0, 2}, {0, 8}).tokens;
  };
  EXPECT_EQ(tokens(**a, DataSplit::kTrain, 1), tokens(**a, DataSplit::kTrain, 1));
  EXPECT_NE(tokens(**a, DataSplit::kTrain, 1), tokens(**a, DataSplit::kTrain, 2));
  EXPECT_NE(tokens(**a, DataSplit::kTrain, 1), tokens(**a, DataSplit::kEvaluate, 1));
  EXPECT_NE(tokens(**a, DataSplit::kTrain, 1), tokens(**b, DataSplit::kTrain, 1));
}

TEST(SyntheticDatasetTest, RefusesWhatItCannotGive) {
  for (int64_t vocabulary : {int64_t{0}, int64_t{-4}, int64_t{1} << 31}) {
    EXPECT_EQ(SyntheticDataset::Create(vocabulary, 1).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  auto dataset = SyntheticDataset::Create(10, 1);
  ASSERT_TRUE(dataset.ok());
  EXPECT_EQ((*dataset)->EvaluationBatches({4, 4}), 8);
  EXPECT_EQ((*dataset)->Read(DataSplit::kEvaluate, 32, {4, 4}, {0, 0}, {0, 0}, {}, {}).code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_TRUE((*dataset)->Read(DataSplit::kTrain, 32, {4, 4}, {0, 0}, {0, 0}, {}, {}).ok());
}

}  // namespace
}  // namespace tessera
