// Checks that results have the same bits under every timing.
#include "collectives/fake/fake.h"

#include <chrono>
#include <vector>

#include "collectives/testing/conformance.h"
#include "core/status/status_macros.h"
#include "gtest/gtest.h"

namespace tessera::comm {
namespace {

class FakeTest : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, FakeTest, testing::Values(0, 1, 2, 3));

TEST_P(FakeTest, EveryOperation) {
  for (const int ranks : {2, 5}) {
    const auto results =
        RunFake({.ranks = ranks, .seed = GetParam()}, [](World& self) -> absl::Status {
          ConformanceOptions options;
          options.sizes = {0, 1, 63, 5000};
          options.large_sizes = {20001};
          options.dtypes = {DType::kF32, DType::kBF16, DType::kI64};
          ASSIGN_OR_RETURN(options.shared, self.Allocate(1 << 20));
          return CheckOperations(self.communicator(), options);
        });
    for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_P(FakeTest, GroupsThatOverlap) {
  constexpr int kRanks = 6;  // [2, 3]
  const auto results =
      RunFake({.ranks = kRanks, .seed = GetParam()}, [](World& self) -> absl::Status {
        std::vector<int> rows, columns;
        for (int r = 0; r < kRanks; ++r) {
          rows.push_back(r / 3);
          columns.push_back(r % 3);
        }
        ASSIGN_OR_RETURN(const auto row, self.communicator().Split("row", rows));
        ASSIGN_OR_RETURN(const auto column, self.communicator().Split("column", columns));
        return CheckOverlappingGroups({&self.communicator(), row.get(), column.get()}, 1000,
                                      GetParam() + 1, /*delays=*/false);
      });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

// Regression: the other threads waited for the time-out of a minute, in the communicator or before
// it existed.
TEST(FakeFailureTest, AThreadThatFailsEndsTheWaitsOfTheOthers) {
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status failure = absl::InternalError("no luck");
  for (const absl::Status& status : RunFake({.ranks = 3}, [&](World& self) -> absl::Status {
         if (self.rank() == 1) return failure;
         return self.communicator().Wait(self.communicator().Barrier());
       })) {
    EXPECT_NE(status.message().find("no luck"), absl::string_view::npos) << status;
  }
  const auto exchange = [&](int rank, const Exchange& exchange) -> absl::Status {
    if (rank == 1) return failure;
    return exchange("key", "text").status();
  };
  for (const absl::Status& status : RunThreads(3, exchange)) {
    EXPECT_NE(status.message().find("no luck"), absl::string_view::npos) << status;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace tessera::comm
