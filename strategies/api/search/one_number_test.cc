#include "strategies/api/search/one_number.h"

#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace tessera::strategy::search {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The numbers that a search over 1, 2, 4, ... 128 asks for.
struct Asked {
  std::vector<int64_t> may_fit, seconds;
};

// Numbers from `may_fit` on may fit, and those from `fits` on do; each takes 10 seconds more than
// the number before it, except that the first ones before `fastest` take longer.
Asked Search(int64_t may_fit, int64_t fits, int64_t fastest) {
  Asked asked;
  const auto status = SearchAscending(
      {1, 2, 4, 8, 16, 32, 64, 128},
      [&](int64_t number) {
        asked.may_fit.push_back(number);
        return number >= may_fit;
      },
      [&](int64_t number) {
        asked.seconds.push_back(number);
        if (number < fits) return kInfinite;
        return 1000. + static_cast<double>(number < fastest ? -number : number);
      });
  EXPECT_TRUE(status.ok()) << status;
  return asked;
}

TEST(SearchAscending, BeginsWithTheFirstNumberThatMayFit) {
  EXPECT_EQ(Search(1, 1, 1).seconds, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(Search(1, 1, 1).may_fit, std::vector<int64_t>{1});
  EXPECT_EQ(Search(32, 32, 32).seconds, (std::vector<int64_t>{32, 64}));
  EXPECT_LE(Search(32, 32, 32).may_fit.size(), 4);
  EXPECT_EQ(Search(128, 128, 128).seconds, std::vector<int64_t>{128});
}

TEST(SearchAscending, GoesOnUntilOneFitsAndAsLongAsTimesFall) {
  EXPECT_EQ(Search(4, 16, 16).seconds, (std::vector<int64_t>{4, 8, 16, 32}));
  EXPECT_EQ(Search(1, 1, 16).seconds, (std::vector<int64_t>{1, 2, 4, 8, 16}));
}

TEST(SearchAscending, EndsWhereNothingFits) {
  EXPECT_TRUE(Search(1000, 1000, 1000).seconds.empty());
  EXPECT_EQ(Search(64, 1000, 1000).seconds, (std::vector<int64_t>{64, 128}));
}

TEST(SearchAscending, ReturnsErrors) {
  const auto fits = [](int64_t) { return true; };
  const auto fails = [](int64_t) -> absl::StatusOr<double> { return absl::DataLossError("lost"); };
  EXPECT_TRUE(absl::IsDataLoss(SearchAscending({1, 2}, fits, fails)));
  EXPECT_TRUE(SearchAscending({}, fits, fails).ok());
}

// The rate rises up to a number and falls beyond it.
TEST(FindBestRate, FindsAPeakToAThird) {
  std::mt19937 random(5);
  for (int i = 0; i < 100; ++i) {
    const double peak = std::uniform_real_distribution<double>(8, 5000)(random);
    std::set<int64_t> tried;
    const auto best = FindBestRate(8, 0, [&](int64_t number) -> absl::StatusOr<double> {
      EXPECT_TRUE(tried.insert(number).second) << number << " is tried twice";
      const double x = static_cast<double>(number);
      return x <= peak ? x : peak * peak / x;
    });
    ASSERT_TRUE(best.ok()) << best.status();
    EXPECT_GE(static_cast<double>(*best), peak / 1.5);
    EXPECT_LE(static_cast<double>(*best), peak * 1.5);
  }
}

}  // namespace
}  // namespace tessera::strategy::search
