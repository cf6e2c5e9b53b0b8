#include "core/train/checkpoint/state_shard.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/random.h"
#include "core/train/checkpoint/shard_cover.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A source of random numbers.
class Random {
 public:
  explicit Random(const std::string& name) : stream_(MakeStream(5, name)) {}
  // From `least` to `most`.
  int64_t Between(int64_t least, int64_t most) {
    return least + RandomWord(stream_, 0, next_++) % (most - least + 1);
  }

 private:
  const RandomStream stream_;
  uint64_t next_ = 0;
};

// Returns the row-major indices of a shard's elements in the global tensor, computed by iterating
// over its box.
std::vector<int64_t> ElementsOf(const StateShard& shard, const Shape& shape) {
  std::vector<int64_t> elements;
  const Strides strides = RowMajorStrides(shape), of_box = RowMajorStrides(shard.box.extent);
  for (int64_t i = shard.begin; i < shard.end; ++i) {
    int64_t element = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      element += (shard.box.start[d] + i / of_box[d] % shard.box.extent[d]) * strides[d];
    }
    elements.push_back(element);
  }
  return elements;
}

// Returns the pairs (index in `first`, index in `second`) of common elements.
std::vector<std::pair<int64_t, int64_t>> Common(const StateShard& first, const StateShard& second,
                                                const Shape& shape) {
  const std::vector<int64_t> a = ElementsOf(first, shape), b = ElementsOf(second, shape);
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto found = std::lower_bound(b.begin(), b.end(), a[i]);
    if (found != b.end() && *found == a[i]) pairs.emplace_back(i, found - b.begin());
  }
  return pairs;
}

std::vector<std::pair<int64_t, int64_t>> CommonByRuns(const StateShard& first,
                                                      const StateShard& second, int64_t* runs) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  *runs = 0;
  SharedRuns shared(first, second);
  while (const std::optional<SharedRun> run = shared.Next()) {
    ++*runs;
    EXPECT_GT(run->count, 0);
    for (int64_t i = 0; i < run->count; ++i) pairs.emplace_back(run->first + i, run->second + i);
  }
  return pairs;
}

StateShard RandomShard(const Shape& shape, Random& random) {
  Box box;
  for (int64_t size : shape) {
    box.start.push_back(random.Between(0, size));
    box.extent.push_back(random.Between(0, size - box.start.back()));
  }
  StateShard shard(std::move(box));
  if (random.Between(0, 1) == 0) return shard;
  const int64_t begin = random.Between(0, shard.end);
  return shard.Part(begin, random.Between(begin, shard.end));
}

TEST(StateShardTest, SharedRunsAreTheCommonElementsInOrder) {
  Random random("shared");
  for (int trial = 0; trial < 20000; ++trial) {
    Shape shape;
    for (int64_t d = random.Between(0, 4); d > 0; --d) shape.push_back(random.Between(1, 5));
    const StateShard first = RandomShard(shape, random), second = RandomShard(shape, random);
    ASSERT_TRUE(CheckShard(first, shape).ok());
    int64_t runs = 0;
    const auto common = Common(first, second, shape);
    ASSERT_EQ(CommonByRuns(first, second, &runs), common)
        << ShardToString(first) << " and " << ShardToString(second);
    ASSERT_EQ(ShardsOverlap(first, second), !common.empty());
  }
}

TEST(StateShardTest, RunsAreAsLongAsBothShardsAllow) {
  int64_t runs = 0;
  CommonByRuns(FullShard({100, 200}), FullShard({100, 200}), &runs);
  EXPECT_EQ(runs, 1);
  CommonByRuns(FullShard({100, 200}), StateShard(Box{{50, 0}, {7, 200}}), &runs);
  EXPECT_EQ(runs, 1);
  CommonByRuns(FullShard({100, 200}), StateShard(Box{{0, 5}, {100, 7}}), &runs);
  EXPECT_EQ(runs, 100);
  CommonByRuns(FullShard({}), FullShard({}), &runs);
  EXPECT_EQ(runs, 1);
  // Rows outside of the ranges take no time.
  const Shape huge = {int64_t{1} << 40, 8};
  const StateShard column(Box{{0, 2}, {huge[0], 3}});
  CommonByRuns(FullShard(huge).Part(huge[0] * 4, huge[0] * 4 + 16), column, &runs);
  EXPECT_EQ(runs, 2);
  CommonByRuns(column.Part(huge[0], huge[0] + 6), FullShard(huge), &runs);
  EXPECT_EQ(runs, 3);
}

TEST(StateShardTest, HasATextForm) {
  const StateShard shard(Box{{0, 2}, {4, 6}});
  EXPECT_EQ(ShardToString(shard), "[0:4, 2:8]");
  EXPECT_EQ(ShardToString(shard.Part(3, 9)), "[0:4, 2:8]{3:9}");
  EXPECT_EQ(ShardToString(FullShard({})), "[]");
  EXPECT_THAT(ShapeOfShard(shard), ElementsAre(4, 6));
  EXPECT_THAT(ShapeOfShard(shard.Part(3, 9)), ElementsAre(6));
  EXPECT_THAT(ShapeOfShard(FullShard({})), IsEmpty());
  EXPECT_TRUE(IsFull(FullShard({4, 8}), {4, 8}));
  EXPECT_FALSE(IsFull(shard, {4, 8}));
  EXPECT_FALSE(IsFull(FullShard({4, 8}).Part(1, 32), {4, 8}));
}

TEST(StateShardTest, MustLieWithinTheTensor) {
  const auto error = [](Shape start, Shape extent, int64_t begin, int64_t end) {
    const absl::Status status = CheckShard({Box{start, extent}, begin, end}, {4, 8});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_TRUE(CheckShard({Box{{4, 8}, {0, 0}}, 0, 0}, {4, 8}).ok());
  EXPECT_EQ(error({1, 1}, {4, 1}, 0, 4), "a shard of [4, 1] at [1, 1] does not lie within [4, 8]");
  EXPECT_THAT(error({0}, {1}, 0, 1), HasSubstr("does not lie within"));
  EXPECT_THAT(error({0, 0}, {1}, 0, 1), HasSubstr("does not lie within"));
  EXPECT_THAT(error({-1, 0}, {1, 1}, 0, 1), HasSubstr("does not lie within"));
  EXPECT_THAT(error({INT64_MAX, 0}, {1, 1}, 0, 1), HasSubstr("does not lie within"));
  EXPECT_THAT(error({1, 0}, {INT64_MAX, 1}, 0, 1), HasSubstr("does not lie within"));
  EXPECT_EQ(error({0, 0}, {2, 2}, 1, 5), "elements 1 to 5 do not lie within a box of 4");
  EXPECT_THAT(error({0, 0}, {2, 2}, -1, 2), HasSubstr("do not lie within a box of 4"));
  EXPECT_THAT(error({0, 0}, {2, 2}, 3, 2), HasSubstr("do not lie within a box of 4"));
}

// Splits a box recursively at random, and the resulting boxes into ranges.
void Split(const Box& box, int depth, Random& random, std::vector<StateShard>* shards) {
  if (box.empty()) return;
  const auto dim = box.extent.empty() ? 0 : random.Between(0, box.extent.size() - 1);
  if (depth == 0 || box.extent.empty() || box.extent[dim] == 1) {
    const StateShard all(box);
    const int64_t middle = random.Between(0, all.end);
    for (const StateShard& part : {all.Part(0, middle), all.Part(middle, all.end)}) {
      if (part.size() > 0) shards->push_back(part);
    }
    return;
  }
  Box low = box, high = box;
  low.extent[dim] = random.Between(1, box.extent[dim] - 1);
  high.start[dim] += low.extent[dim];
  high.extent[dim] -= low.extent[dim];
  Split(low, depth - 1, random, shards);
  Split(high, depth - 1, random, shards);
}

TEST(ShardCoverTest, AcceptsWhatHoldsEachElementOnceAndNothingElse) {
  Random random("cover");
  int moved = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    Shape shape;
    for (int64_t d = random.Between(0, 4); d > 0; --d) shape.push_back(random.Between(1, 7));
    std::vector<StateShard> shards;
    Split(Box{Shape(shape.size(), 0), shape}, 3, random, &shards);
    ASSERT_TRUE(CheckCover(shape, shards).ok()) << CheckCover(shape, shards);

    // Moving one shard, without changing its size, leaves elements uncovered.
    StateShard& changed = shards[random.Between(0, shards.size() - 1)];
    const StateShard before = changed;
    for (size_t d = 0; d < shape.size(); ++d) {
      changed.box.start[d] = random.Between(0, shape[d] - changed.box.extent[d]);
    }
    const bool same = ElementsOf(before, shape) == ElementsOf(changed, shape);
    const absl::Status status = CheckCover(shape, shards);
    ASSERT_EQ(status.ok(), same) << status;
    if (!same) {
      EXPECT_THAT(status.message(), HasSubstr(" overlap"));
      ++moved;
    }

    changed = before;
    shards.pop_back();
    ASSERT_FALSE(CheckCover(shape, shards).ok());
  }
  EXPECT_GT(moved, 1000);
}

TEST(ShardCoverTest, NamesTheFault) {
  const StateShard left(Box{{0, 0}, {4, 4}}), right(Box{{0, 4}, {4, 4}});
  EXPECT_TRUE(CheckCover({4, 8}, {left, right}).ok());
  EXPECT_TRUE(CheckCover({0, 8}, {}).ok());
  EXPECT_EQ(CheckCover({4, 8}, {left}).message(), "its shards hold 16 of its 32 elements");
  EXPECT_EQ(CheckCover({4, 8}, {right, right}).message(),
            "its shards [0:4, 4:8] and [0:4, 4:8] overlap");
  EXPECT_EQ(CheckCover({4, 8}, {left, right, right.Part(1, 2)}).message(),
            "its shards [0:4, 4:8] and [0:4, 4:8]{1:2} overlap");
  EXPECT_THAT(CheckCover({4, 7}, {left, right}).message(), HasSubstr("does not lie within"));
}

// Comparing all pairs would take hours.
TEST(ShardCoverTest, ChecksAMillionShards) {
  constexpr int64_t kRows = 1000, kColumns = 1000;
  std::vector<StateShard> shards;
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    shards.push_back(StateShard(Box{{i / kColumns, i % kColumns * 2}, {1, 2}}));
  }
  EXPECT_TRUE(CheckCover({kRows, 2 * kColumns}, shards).ok());
  shards.back() = shards.front();
  EXPECT_EQ(CheckCover({kRows, 2 * kColumns}, shards).message(), "some of its shards overlap");
}

}  // namespace
}  // namespace tessera
