#include "core/train/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tessera {
namespace {

// Returns the share of draws of each token, for `uniform` evenly spaced in [0, 1).
std::vector<double> Shares(const std::vector<double>& logits, double temperature, int64_t top_k) {
  constexpr int kDraws = 20000;
  std::vector<double> shares(logits.size(), 0);
  for (int i = 0; i < kDraws; ++i) {
    shares[SampleToken(logits, temperature, top_k, (i + 0.5) / kDraws)] += 1.0 / kDraws;
  }
  return shares;
}

TEST(SamplingTest, FollowsTheProbabilities) {
  const std::vector<double> logits = {std::log(1.0), std::log(2.0), std::log(5.0)};
  const std::vector<double> at_one = Shares(logits, 1, 0);
  EXPECT_NEAR(at_one[0], 1.0 / 8, 1e-3);
  EXPECT_NEAR(at_one[1], 2.0 / 8, 1e-3);
  EXPECT_NEAR(at_one[2], 5.0 / 8, 1e-3);
  const std::vector<double> at_half = Shares(logits, 0.5, 0);
  EXPECT_NEAR(at_half[0], 1.0 / 30, 1e-3);
  EXPECT_NEAR(at_half[2], 25.0 / 30, 1e-3);
}

TEST(SamplingTest, TopKDrawsTheMostProbableOnly) {
  const std::vector<double> logits = {3, 1, 2, 3};
  EXPECT_EQ(Shares(logits, 1, 2), Shares({3, -INFINITY, -INFINITY, 3}, 1, 0));
  EXPECT_NEAR(Shares(logits, 1, 1)[0], 1, 1e-9) << "the lower token wins a tie";
  EXPECT_EQ(Shares(logits, 1, 9), Shares(logits, 1, 0));
}

TEST(SamplingTest, TheMostProbableAtTemperatureZero) {
  EXPECT_EQ(SampleToken({1, 5, 5, 2}, 0, 0, 0.99), 1);
}

TEST(SamplingTest, LogitsThatAreNotFiniteAreNeverDrawn) {
  const double kInf = INFINITY;
  EXPECT_EQ(SampleToken({NAN, kInf, 0, -kInf}, 1, 0, 0.5), 2);
  EXPECT_EQ(SampleToken({NAN, 7, 8}, 0, 0, 0.5), 2);
  EXPECT_EQ(SampleToken({NAN, NAN}, 1, 0, 0.5), 0);
}

TEST(SamplingTest, LargeLogitsDoNotOverflow) {
  EXPECT_EQ(SampleToken({1e300, 0}, 1e-3, 0, 0.999), 0);
}

}  // namespace
}  // namespace tessera
