#include "tools/plan/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/gpt/gpt.h"
#include "tools/plan/testing/small_cells.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kBatch = 16;
constexpr int kRanks = 2;

bool NeverStops() { return false; }

CellRequest Request(const std::string& strategy, int64_t limit) {
  return SmallRequest(strategy, kRanks,
                      {absl::StrCat("--batch=", kBatch), absl::StrCat("--memory_limit=", limit)});
}

Cell Fit(const std::string& strategy, int64_t limit) {
  absl::StatusOr<Cell> cell = PlanFastestFit(Request(strategy, limit), GptDefinition(), NeverStops);
  EXPECT_TRUE(cell.ok()) << cell.status();
  return *std::move(cell);
}

// A setting and what a step with it needs.
struct Known {
  int64_t micro_batches = 1;
  std::string recompute;
  int64_t bytes = 0;
  double seconds = 0;
};

// Plans the step with every setting.
std::vector<Known> PlanAll(const std::string& strategy) {
  std::vector<Known> all;
  for (const std::string recompute : {"none", "block"}) {
    for (const int64_t count : MicroBatchesToTry(kBatch, 1, kRanks)) {
      const CellRequest request =
          WithField(WithField(Request(strategy, int64_t{1} << 40), "recompute", recompute),
                    "micro_batches", absl::StrCat(count));
      const absl::StatusOr<Cell> cell = PlanCell(request, GptDefinition());
      EXPECT_TRUE(cell.ok()) << cell.status();
      all.push_back(
          {count, recompute, cell->peak_bytes(), cell->prepared.estimated.step_seconds()});
    }
  }
  return all;
}

// Returns the faster one of the fewest micro-batches that fit with and without recomputation.
std::optional<Known> Expected(const std::vector<Known>& all, int64_t limit) {
  std::optional<Known> best;
  for (const std::string recompute : {"none", "block"}) {
    for (const Known& known : all) {
      if (known.recompute != recompute || known.bytes > limit) continue;
      if (known.micro_batches == 1 && recompute == "none") return known;
      if (!best.has_value() || known.seconds < best->seconds) best = known;
      break;
    }
  }
  return best;
}

TEST(FitTest, FindsWhatTryingAllFinds) {
  for (const std::string strategy : {"ddp", "fsdp"}) {
    const std::vector<Known> all = PlanAll(strategy);
    for (const Known& known : all) {
      for (const int64_t limit : {known.bytes, known.bytes - 1}) {
        SCOPED_TRACE(absl::StrCat(strategy, " in ", limit, " bytes"));
        const std::optional<Known> expected = Expected(all, limit);
        const Cell found = Fit(strategy, limit);
        EXPECT_EQ(found.fits(), expected.has_value());
        if (!expected.has_value()) continue;
        EXPECT_EQ(found.configured->config.micro_batches(), expected->micro_batches);
        EXPECT_EQ(found.configured->config.recompute(), expected->recompute);
      }
    }
  }
}

TEST(FitTest, NothingFits) {
  const std::vector<Known> all = PlanAll("ddp");
  int64_t least = all.front().bytes;
  for (const Known& known : all) least = std::min(least, known.bytes);
  const Cell cell = Fit("ddp", least - 1);
  EXPECT_FALSE(cell.fits());
  EXPECT_EQ(cell.configured->config.micro_batches(), 1);
  ASSERT_TRUE(cell.least.has_value());
  EXPECT_GT(cell.least->bytes, least - 1);
  EXPECT_LE(static_cast<double>(cell.least->bytes), 1.1 * static_cast<double>(least));
}

TEST(FitTest, WhatTheCommandLineSetsIsKept) {
  const int64_t limit = PlanAll("ddp").back().bytes;
  const absl::StatusOr<Cell> cell = PlanFastestFit(
      WithField(Request("ddp", limit), "micro_batches", "2"), GptDefinition(), NeverStops);
  ASSERT_TRUE(cell.ok()) << cell.status();
  EXPECT_EQ(cell->configured->config.micro_batches(), 2);
}

// Returns the request on so many ranks.
CellRequest OnRanks(CellRequest request, int ranks) {
  request.ranks = ranks;
  return request;
}

TEST(FitTest, TheFewestRanksThatFit) {
  for (const std::string strategy : {"ddp", "fsdp"}) {
    for (const int expected : {1, 2, 8}) {
      // The least that so many ranks need.
      const absl::StatusOr<Cell> none =
          PlanFastestFit(OnRanks(Request(strategy, 1), expected), GptDefinition(), NeverStops);
      ASSERT_TRUE(none.ok()) << none.status();
      const CellRequest request = Request(strategy, none->least->bytes);
      const absl::StatusOr<Cell> found = PlanFewestRanks(request, GptDefinition(), NeverStops);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_TRUE(found->fits());
      const int ranks = found->request.ranks;
      EXPECT_LE(ranks, expected);
      if (ranks == 1) continue;
      const absl::StatusOr<Cell> fewer =
          PlanFastestFit(OnRanks(request, ranks / 2), GptDefinition(), NeverStops);
      EXPECT_FALSE(fewer->fits()) << strategy << " also fits on " << ranks / 2;
    }
  }
  const absl::StatusOr<Cell> never =
      PlanFewestRanks(Request("ddp", 1), GptDefinition(), NeverStops);
  ASSERT_TRUE(never.ok()) << never.status();
  EXPECT_FALSE(never->fits());
  EXPECT_EQ(never->request.ranks, kBatch);
}

TEST(FitTest, MicroBatchesLeaveEachRankASequence) {
  EXPECT_THAT(MicroBatchesToTry(12, 1, 2), ElementsAre(1, 2, 3, 4, 6));
  EXPECT_THAT(MicroBatchesToTry(12, 2, 3), ElementsAre(2, 3, 4));
  EXPECT_THAT(MicroBatchesToTry(4, 1, 16), ElementsAre(1));
  EXPECT_THAT(MicroBatchesToTry(7, 1, 1), ElementsAre(1, 7));
}

}  // namespace
}  // namespace tessera
