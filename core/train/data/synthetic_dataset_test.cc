#include "core/train/data/synthetic_dataset.h"

#include <cstdint>
#include <vector>

#include "core/train/data/testing/read_rows.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

std::vector<BatchField> Tokens(int64_t limit, int64_t sequence) {
  const TensorType type = {DType::kI32, {sequence}};
  return {{"tokens", type, limit}, {"targets", type, limit, -100}};
}

std::unique_ptr<Dataset> Make(std::vector<BatchField> fields, uint64_t seed = 3) {
  auto dataset = SyntheticDataset::Create(std::move(fields), 8, seed);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return *std::move(dataset);
}

// Pictures, numbers and labels: rows of 3, 1 and 0 dimensions.
TEST(SyntheticDatasetTest, PartsAreThoseOfTheRows) {
  const auto dataset = Make({{"pictures", {DType::kU8, {3, 5, 2}}},
                             {"numbers", {DType::kF32, {7}}},
                             {"labels", {DType::kI64, {}}, 10}});
  const auto bytes =
      ReadElements<uint8_t>(*dataset, DataSplit::kTrain, 0, {{2, 0, 0, 0}, {4, 3, 5, 2}});
  const auto labels = ReadElements<int64_t>(*dataset, DataSplit::kTrain, 2, {{2}, {4}});
  ASSERT_TRUE(bytes.ok() && labels.ok());
  for (int64_t row = 0; row < 4; ++row) {
    EXPECT_THAT((*labels)[row], ::testing::AllOf(::testing::Ge(0), ::testing::Lt(10)));
    EXPECT_EQ((*ReadElements<int64_t>(*dataset, DataSplit::kTrain, 2, {{2 + row}, {1}}))[0],
              (*labels)[row]);
    for (int64_t h = 0; h < 3; ++h) {
      // Columns 1 to 3 of a line of the picture, of its second channel.
      const auto part =
          ReadElements<uint8_t>(*dataset, DataSplit::kTrain, 0, {{2 + row, h, 1, 1}, {1, 1, 3, 1}});
      ASSERT_TRUE(part.ok()) << part.status();
      for (int64_t w = 0; w < 3; ++w) {
        EXPECT_EQ((*part)[w], (*bytes)[((row * 3 + h) * 5 + 1 + w) * 2 + 1]);
      }
    }
  }
  const auto numbers = ReadElements<float>(*dataset, DataSplit::kTrain, 1, {{0, 0}, {100, 7}});
  ASSERT_TRUE(numbers.ok());
  double sum = 0;
  for (const float number : *numbers) {
    ASSERT_TRUE(number >= 0 && number <= 1);
    sum += number;
  }
  EXPECT_NEAR(sum / 700, 0.5, 0.05);
}

TEST(SyntheticDatasetTest, FillsTheVocabularyEvenly) {
  const auto dataset = Make(Tokens(50, 500));
  std::vector<int> counts(50);
  for (int32_t token : ReadTokens(*dataset, DataSplit::kTrain, {{0, 0}, {100, 500}}).tokens) {
    ASSERT_TRUE(token >= 0 && token < 50);
    ++counts[token];
  }
  for (int count : counts) EXPECT_NEAR(count, 1000, 160);
}

TEST(SyntheticDatasetTest, DependsOnSeedSplitRowAndField) {
  const auto a = Make(Tokens(50000, 8)), b = Make(Tokens(50000, 8), 4);
  const auto rows = [](const Dataset& dataset, DataSplit split, int64_t row) {
    return ReadTokens(dataset, split, {{row, 0}, {2, 8}});
  };
  const TokenRows first = rows(*a, DataSplit::kTrain, 1);
  EXPECT_EQ(first.tokens, rows(*a, DataSplit::kTrain, 1).tokens);
  EXPECT_NE(first.tokens, first.targets);
  EXPECT_NE(first.tokens, rows(*a, DataSplit::kTrain, 3).tokens);
  EXPECT_NE(first.tokens, rows(*a, DataSplit::kEvaluate, 1).tokens);
  EXPECT_NE(first.tokens, rows(*b, DataSplit::kTrain, 1).tokens);
  EXPECT_EQ(a->Fingerprint(), "random tokens below 50000, targets below 50000");
}

TEST(SyntheticDatasetTest, RefusesWhatItCannotGive) {
  for (int64_t limit : {int64_t{0}, int64_t{-4}, int64_t{1} << 31}) {
    EXPECT_EQ(SyntheticDataset::Create(Tokens(limit, 4), 8, 1).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  const auto dataset = Make(Tokens(10, 4));
  EXPECT_EQ(dataset->EvaluationRows(), 8);
  EXPECT_EQ(ReadElements(*dataset, DataSplit::kEvaluate, 0, {{7, 0}, {2, 4}}).status().code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(ReadElements(*dataset, DataSplit::kTrain, 0, {{7, 0}, {2, 4}}).ok());
}

}  // namespace
}  // namespace tessera
