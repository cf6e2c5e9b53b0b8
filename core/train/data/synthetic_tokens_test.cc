#include "core/train/data/synthetic_tokens.h"

#include <cstdint>
#include <vector>

#include "core/train/data/testing/read_rows.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

std::unique_ptr<Dataset> Make(int64_t vocabulary, int64_t sequence, int64_t batch,
                              uint64_t seed = 3) {
  auto dataset = SyntheticTokens::Create(vocabulary, sequence, batch, seed);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return *std::move(dataset);
}

TEST(SyntheticTokensTest, PartsAreThoseOfTheRows) {
  const auto dataset = Make(1000, 10, 5);
  const TokenRows all = ReadTokens(*dataset, DataSplit::kTrain, {{8, 0}, {5, 10}});
  for (int64_t row = 0; row < 5; ++row) {
    for (int64_t column = 0; column < 10; ++column) {
      const TokenRows one = ReadTokens(*dataset, DataSplit::kTrain, {{8 + row, column}, {1, 1}});
      EXPECT_EQ(one.tokens[0], all.tokens[row * 10 + column]);
      EXPECT_EQ(one.targets[0], all.targets[row * 10 + column]);
      if (column > 0) {
        EXPECT_EQ(all.tokens[row * 10 + column], all.targets[row * 10 + column - 1]);
      }
    }
  }
  EXPECT_TRUE(ReadTokens(*dataset, DataSplit::kTrain, {{2, 3}, {5, 0}}).tokens.empty());
}

TEST(SyntheticTokensTest, FillsTheVocabularyEvenly) {
  const auto dataset = Make(50, 500, 100);
  std::vector<int> counts(50);
  for (int32_t token : ReadTokens(*dataset, DataSplit::kTrain, {{0, 0}, {100, 500}}).tokens) {
    ASSERT_TRUE(token >= 0 && token < 50);
    ++counts[token];
  }
  for (int count : counts) EXPECT_NEAR(count, 1000, 160);
}

TEST(SyntheticTokensTest, DependsOnSeedSplitAndBatch) {
  const auto a = Make(50000, 8, 2), b = Make(50000, 8, 2, 4);
  const auto tokens = [](const Dataset& dataset, DataSplit split, int64_t batch) {
    return ReadTokens(dataset, split, {{2 * batch, 0}, {2, 8}}).tokens;
  };
  EXPECT_EQ(tokens(*a, DataSplit::kTrain, 1), tokens(*a, DataSplit::kTrain, 1));
  EXPECT_NE(tokens(*a, DataSplit::kTrain, 1), tokens(*a, DataSplit::kTrain, 2));
  EXPECT_NE(tokens(*a, DataSplit::kTrain, 1), tokens(*a, DataSplit::kEvaluate, 1));
  EXPECT_NE(tokens(*a, DataSplit::kTrain, 1), tokens(*b, DataSplit::kTrain, 1));
}

TEST(SyntheticTokensTest, RefusesWhatItCannotGive) {
  for (int64_t vocabulary : {int64_t{0}, int64_t{-4}, int64_t{1} << 31}) {
    EXPECT_EQ(SyntheticTokens::Create(vocabulary, 4, 4, 1).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  const auto dataset = Make(10, 4, 4);
  EXPECT_EQ(dataset->EvaluationRows(), 32);
  EXPECT_EQ(dataset->Read(DataSplit::kEvaluate, 0, {{32, 0}, {1, 4}}, {}).code(),
            absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace tessera
