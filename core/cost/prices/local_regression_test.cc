#include "core/cost/prices/local_regression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace tessera {
namespace {

using ::testing::DoubleNear;
using ::testing::Optional;

TEST(LocalRegressionTest, HasNoValueWithoutPoints) {
  EXPECT_EQ(InterpolateLocally({}, {1.0}), std::nullopt);
}

TEST(LocalRegressionTest, OnePointGivesItsValueEverywhere) {
  EXPECT_THAT(InterpolateLocally({{{1, 2}, 0.5}}, {7, 9}), Optional(DoubleNear(0.5, 1e-9)));
}

// A known point is nearly met: the others have a small weight there.
TEST(LocalRegressionTest, MeetsAKnownPoint) {
  const std::vector<KnownValue> known = {{{0}, 1}, {{3}, 2}, {{6}, 0}, {{9}, 1}};
  for (const KnownValue& each : known) {
    EXPECT_THAT(InterpolateLocally(known, each.position), Optional(DoubleNear(each.value, 0.02)));
  }
}

// A function that is linear in some coordinates is found between many points, whatever it does not
// depend on. A mean by distance alone is off by up to 0.5 here.
TEST(LocalRegressionTest, FollowsALinearFunction) {
  const auto function = [](const std::vector<double>& x) { return 0.4 * x[0] - 0.3 * x[2] + 1; };
  std::mt19937 random(1);
  std::uniform_real_distribution<double> coordinate(0, 6);
  const auto position = [&] {
    return std::vector<double>{coordinate(random), coordinate(random), coordinate(random)};
  };
  std::vector<KnownValue> known;
  for (int i = 0; i < 100; ++i) {
    std::vector<double> x = position();
    const double value = function(x);
    known.push_back({std::move(x), value});
  }
  for (int i = 0; i < 20; ++i) {
    const std::vector<double> x = position();
    EXPECT_THAT(InterpolateLocally(known, x), Optional(DoubleNear(function(x), 0.12)));
  }
}

// A slope between two near points says nothing about what is far away.
TEST(LocalRegressionTest, StaysNearTheKnownValues) {
  const std::vector<KnownValue> known = {{{0}, 0}, {{0.1}, 1}};
  for (const double x : {-100.0, -1.0, 1.0, 100.0}) {
    const std::optional<double> value = InterpolateLocally(known, {x});
    ASSERT_TRUE(value.has_value());
    EXPECT_GE(*value, -0.3) << x;
    EXPECT_LE(*value, 1.3) << x;
  }
}

TEST(LocalRegressionTest, EqualPointsGiveTheirMean) {
  EXPECT_THAT(InterpolateLocally({{{1, 1}, 2}, {{1, 1}, 4}}, {1, 1}),
              Optional(DoubleNear(3, 1e-9)));
  EXPECT_THAT(InterpolateLocally({{{}, 2}, {{}, 4}}, {}), Optional(DoubleNear(3, 1e-9)));
}

}  // namespace
}  // namespace tessera
