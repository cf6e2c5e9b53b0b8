#include "core/train/stored_orders.h"

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/train/checkpoint/test_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A model of version 3, which had its parameter in another order in version 1.
class ChangedModel : public Model {
 public:
  int64_t vocabulary() const override { return 2; }
  int64_t max_sequence() const override { return 1; }
  MeanLoss RecordLoss(Graph&, int64_t, int64_t, bool) const override { return {}; }
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

// Loads a stored tensor whose elements are 0, 1, 2, ..., run by run.
std::vector<int64_t> Loaded(const Shape& shape, absl::Span<const int> order, int64_t* runs) {
  std::vector<int64_t> stored(NumElements(shape));
  std::iota(stored.begin(), stored.end(), 0);
  std::vector<int64_t> loaded(stored.size(), -1);
  *runs = 0;
  const absl::Status status = ForEachRun(shape, order, [&](const StoredRun& run) {
    ++*runs;
    std::copy_n(stored.begin() + run.stored, run.count, loaded.begin() + run.loaded);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return loaded;
}

TEST(ForEachRunTest, LoadsInTheRunsOrder) {
  int64_t runs = 0;
  // Stored as [2, 3].
  EXPECT_THAT(Loaded({3, 2}, {1, 0}, &runs), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(runs, 6);
  // Stored as [2, 3, 2]: two elements at a time.
  EXPECT_THAT(Loaded({3, 2, 2}, {1, 0, 2}, &runs),
              ElementsAre(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11));
  EXPECT_EQ(runs, 6);
  // Stored as [2, 2, 3], and (a, b, c) of the run is (c, a, b) there: a cycle is no swap.
  EXPECT_THAT(Loaded({2, 3, 2}, {2, 0, 1}, &runs),
              ElementsAre(0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11));
  // In one order: one run.
  EXPECT_THAT(Loaded({2, 2}, {}, &runs), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(runs, 1);
  EXPECT_THAT(Loaded({}, {}, &runs), ElementsAre(0));
  EXPECT_THAT(Loaded({0, 2}, {1, 0}, &runs), IsEmpty());
  EXPECT_EQ(runs, 0);
}

TEST(ForEachRunTest, EndsAtAnError) {
  int runs = 0;
  const absl::Status status = ForEachRun({3, 2}, {1, 0}, [&](const StoredRun&) {
    return ++runs == 2 ? absl::DataLossError("here") : absl::OkStatus();
  });
  EXPECT_EQ(status, absl::DataLossError("here"));
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace tessera
