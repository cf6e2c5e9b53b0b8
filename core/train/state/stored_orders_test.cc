#include "core/train/state/stored_orders.h"

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/model/language_model.h"
#include "core/train/checkpoint/testing/test_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A model of version 3 whose parameter had another order of dimensions in version 1.
class ChangedModel : public LanguageModel {
 public:
  int64_t vocabulary() const override { return 2; }
  int64_t max_sequence() const override { return 1; }
  RecordedLoss RecordLoss(Graph&, int64_t, int64_t, bool) const override { return {}; }
  Tensor RecordLogits(Graph&, int64_t, int64_t) const override { return {}; }
  Tensor RecordNextToken(Graph&, int64_t) const override { return {}; }
  int64_t state_version() const override { return 3; }
  std::vector<FormerOrder> FormerOrders(int64_t version) const override {
    if (version > 1) return {};
    return {{"w", {1, 0}}};
  }
};

std::unique_ptr<Checkpoint> CheckpointOfVersion(int64_t version) {
  CheckpointContents contents = ContentsForTest(1);
  contents.state_version = version;
  const std::string run = NewFolder("stored_orders");
  const auto saved = SaveCheckpoint(run, contents, ReadStateForTest(1));
  EXPECT_TRUE(saved.ok()) << saved.status();
  auto opened = OpenCheckpoint(run);
  EXPECT_TRUE(opened.ok()) << opened.status();
  return std::move(opened->checkpoint);
}

TEST(StoredOrdersTest, MomentsFollowTheirParameter) {
  const auto orders = StoredOrders::Create(*CheckpointOfVersion(1), ChangedModel());
  ASSERT_TRUE(orders.ok()) << orders.status();
  for (const char* path : {"w", "w.adam_m", "w.adam_v", "w.momentum"}) {
    EXPECT_THAT(orders->Find(path), ElementsAre(1, 0)) << path;
  }
  EXPECT_THAT(orders->Find("optimizer.step"), IsEmpty());
}

TEST(StoredOrdersTest, EachVersionHasItsOwn) {
  for (int64_t version : {2, 3}) {
    const auto orders = StoredOrders::Create(*CheckpointOfVersion(version), ChangedModel());
    ASSERT_TRUE(orders.ok()) << orders.status();
    EXPECT_THAT(orders->Find("w"), IsEmpty());
  }
}

TEST(StoredOrdersTest, StatesOfANewerModelAreRefused) {
  const absl::Status status =
      StoredOrders::Create(*CheckpointOfVersion(4), ChangedModel()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("holds version 4 of the model's states, and this Tessera "
                                          "has version 3: load it with a newer Tessera"));
}

// Loads a shard of a stored tensor whose elements are 0, 1, 2, ....
std::vector<int64_t> Loaded(const Shape& shape, const StateShard& shard,
                            absl::Span<const int> order, int64_t* parts) {
  const Shape stored_shape = StoredShape(shape, order);
  std::vector<int64_t> loaded;
  *parts = 0;
  while (static_cast<int64_t>(loaded.size()) < shard.size()) {
    const auto first = static_cast<int64_t>(loaded.size());
    const StateShard stored = StoredPrefix(shard.Part(first, shard.size()), order);
    EXPECT_TRUE(CheckShard(stored, stored_shape).ok());
    EXPECT_GT(stored.size(), 0);
    ++*parts;
    loaded.resize(first + stored.size(), -1);
    SharedRuns runs(FullShard(stored_shape), stored);
    while (const std::optional<SharedRun> run = runs.Next()) {
      std::iota(loaded.begin() + first + run->second,
                loaded.begin() + first + run->second + run->count, run->first);
    }
  }
  return loaded;
}

std::vector<int64_t> AllLoaded(const Shape& shape, absl::Span<const int> order, int64_t* parts) {
  return Loaded(shape, FullShard(shape), order, parts);
}

TEST(StoredPrefixTest, LoadsInTheRunsOrder) {
  int64_t parts = 0;
  // Stored as [2, 3].
  EXPECT_THAT(AllLoaded({3, 2}, {1, 0}, &parts), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(parts, 6);
  // Stored as [2, 3, 2]: two elements at a time.
  EXPECT_THAT(AllLoaded({3, 2, 2}, {1, 0, 2}, &parts),
              ElementsAre(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11));
  EXPECT_EQ(parts, 6);
  // Stored as [2, 2, 3], where (a, b, c) of the run is (c, a, b): a cycle instead of a swap.
  EXPECT_THAT(AllLoaded({2, 3, 2}, {2, 0, 1}, &parts),
              ElementsAre(0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11));
  // Without a change of order, one part is enough.
  EXPECT_THAT(AllLoaded({2, 2}, {}, &parts), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(parts, 1);
  EXPECT_THAT(AllLoaded({2, 2}, {0, 1}, &parts), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(parts, 1);
  EXPECT_THAT(AllLoaded({}, {}, &parts), ElementsAre(0));
  EXPECT_THAT(AllLoaded({0, 2}, {1, 0}, &parts), IsEmpty());
  EXPECT_EQ(parts, 0);
}

// Any shard has the same elements as that part of the full tensor.
TEST(StoredPrefixTest, LoadsAnyShard) {
  const Shape shape = {2, 3, 4, 2};
  const std::vector<int> order = {1, 2, 0, 3};
  int64_t parts = 0;
  const std::vector<int64_t> all = AllLoaded(shape, order, &parts);
  for (const Box& box : {Box{{0, 0, 0, 0}, shape}, Box{{1, 1, 2, 0}, {1, 2, 2, 2}},
                         Box{{0, 2, 1, 1}, {2, 1, 3, 1}}}) {
    const StateShard full(box);
    std::vector<int64_t> expected;
    SharedRuns runs(FullShard(shape), full);
    while (const std::optional<SharedRun> run = runs.Next()) {
      expected.insert(expected.end(), all.begin() + run->first,
                      all.begin() + run->first + run->count);
    }
    for (int64_t begin = 0; begin <= full.end; ++begin) {
      for (int64_t end = begin; end <= full.end; ++end) {
        ASSERT_EQ(Loaded(shape, full.Part(begin, end), order, &parts),
                  std::vector<int64_t>(expected.begin() + begin, expected.begin() + end));
      }
    }
  }
}

}  // namespace
}  // namespace tessera
