#include "core/train/data/shuffle.h"

#include <cmath>
#include <cstdlib>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(ShuffleTest, IsAPermutation) {
  std::vector<int64_t> counts = {255, 256, 257, 1000, 4096, 65537};
  for (int64_t count = 1; count <= 70; ++count) counts.push_back(count);
  for (int64_t count : counts) {
    for (uint64_t epoch : {0u, 1u, 77u}) {
      const Shuffle shuffle(MakeStream(3, "test"), epoch, count);
      std::vector<bool> seen(count);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t item = shuffle(i);
        ASSERT_GE(item, 0);
        ASSERT_LT(item, count);
        ASSERT_FALSE(seen[item]) << "count " << count << " item " << item;
        seen[item] = true;
      }
    }
  }
}

TEST(ShuffleTest, ReachesItemsBeyond32Bits) {
  const int64_t count = (int64_t{1} << 62) - 5;
  const Shuffle shuffle(MakeStream(3, "test"), 0, count);
  std::set<int64_t> items;
  double mean = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t item = shuffle(count - 1 - i);
    EXPECT_TRUE(item >= 0 && item < count);
    items.insert(item);
    mean += static_cast<double>(item) / static_cast<double>(count) / 1000;
  }
  EXPECT_EQ(items.size(), 1000u);
  EXPECT_NEAR(mean, 0.5, 0.05);
}

TEST(ShuffleTest, DependsOnStreamAndEpochOnly) {
  const auto order = [](uint64_t seed, uint64_t epoch) {
    const Shuffle shuffle(MakeStream(seed, "test"), epoch, 100);
    std::vector<int64_t> items;
    for (int64_t i = 0; i < 100; ++i) items.push_back(shuffle(i));
    return items;
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
  EXPECT_NE(order(1, 0), order(2, 0));
}

// Every item is at every position about equally often, even in very small sets.
TEST(ShuffleTest, IsUniform) {
  constexpr int kEpochs = 4000;
  for (int64_t count : {2, 3, 5, 17}) {
    std::vector<int> hits(count * count);
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      const Shuffle shuffle(MakeStream(9, "test"), epoch, count);
      for (int64_t i = 0; i < count; ++i) ++hits[i * count + shuffle(i)];
    }
    const double expected = static_cast<double>(kEpochs) / static_cast<double>(count);
    for (int hit : hits) EXPECT_NEAR(hit, expected, 5 * std::sqrt(expected)) << "of " << count;
  }
}

// Consecutive items do not remain consecutive.
TEST(ShuffleTest, BreaksUpRuns) {
  const Shuffle shuffle(MakeStream(4, "test"), 0, 10000);
  int close = 0;
  for (int64_t i = 1; i < 10000; ++i) close += std::abs(shuffle(i) - shuffle(i - 1)) < 100;
  EXPECT_NEAR(close, 200, 60);
}

}  // namespace
}  // namespace tessera
