#include "core/cost/prices/collective_curves.h"

#include <gtest/gtest.h>

#include <optional>

namespace tessera {
namespace {

using Operation = CollectiveOperation;

// A byte takes a second.
double Described(int64_t bytes) { return static_cast<double>(bytes); }

TEST(CollectiveCurvesTest, TheNameHasWhatTimesDependOn) {
  const GroupSite shm = {CollectiveBackend::kShm, {0, 0}};
  EXPECT_EQ(CurveName(Operation::kAllReduce, DType::kF32, Reduction::kSum, shm, {2, 1, ""}),
            "all-reduce of f32 (sum), shm, 2 ranks; 2 ranks of 1 thread on a host");
  EXPECT_EQ(
      CurveName(Operation::kAllGather, DType::kBF16, Reduction::kMax,
                {CollectiveBackend::kHierarchical, {0, 0, 1}}, {4, 2, "slow"}),
      "all-gather of bf16, hierarchical, 2+1 ranks on 2 hosts of slow; 4 ranks of 2 threads on "
      "a host");
  // A hierarchical group with one rank on each host works as one over TCP, on one host as shm.
  EXPECT_EQ(CurveName(Operation::kReduceScatter, DType::kF32, Reduction::kMax,
                      {CollectiveBackend::kHierarchical, {0, 1}}, {1, 1, ""}),
            "reduce-scatter of f32 (max), tcp, 1+1 ranks on 2 hosts; 1 rank of 1 thread on a host");
  EXPECT_EQ(CurveName(Operation::kAllReduce, DType::kF32, Reduction::kSum,
                      {CollectiveBackend::kHierarchical, {0, 0}}, {2, 1, "any"}),
            CurveName(Operation::kAllReduce, DType::kF32, Reduction::kSum, shm, {2, 1, ""}));
}

TEST(CollectiveCurvesTest, AMeasuredSizeHasTheMedian) {
  CollectiveCurves curves;
  EXPECT_FALSE(curves.Of("a", 8, Described).has_value());
  for (const double seconds : {9.0, 1.0, 2.0}) curves.Add("a", 8, {seconds, 2 * seconds, 1});
  const std::optional<CollectivePrice> price = curves.Of("a", 8, Described);
  ASSERT_TRUE(price.has_value());
  EXPECT_EQ(price->source, PriceSource::kMeasured);
  EXPECT_EQ(price->times.alone, 2);
  EXPECT_EQ(price->times.beside, 4);
  EXPECT_EQ(price->times.taken, 1);
  EXPECT_FALSE(curves.Of("b", 8, Described).has_value());
}

TEST(CollectiveCurvesTest, OnlyTheLastMeasurementsCount) {
  CollectiveCurves curves, newer;
  curves.Add("a", 8, {100, 100, 100});
  for (size_t i = 0; i < CollectiveCurves::kKept; ++i) newer.Add("a", 8, {1, 1, 1});
  curves.AddAll(newer);
  EXPECT_EQ(curves.Of("a", 8, Described)->times.alone, 1);
  EXPECT_EQ(curves.curves().at("a").at(8).size(), CollectiveCurves::kKept);
}

// Measured are twice the described seconds at 10 bytes, 4 times at 1000.
TEST(CollectiveCurvesTest, OtherSizesAreInterpolated) {
  CollectiveCurves curves;
  curves.Add("a", 10, {20, 40, 10});
  curves.Add("a", 1000, {4000, 4000, 4000});
  const CollectivePrice between = *curves.Of("a", 100, Described);
  EXPECT_EQ(between.source, PriceSource::kInterpolated);
  EXPECT_NEAR(between.times.alone, 300, 6);
  EXPECT_NEAR(between.times.beside / between.times.alone, 1.5, 0.02);
  EXPECT_NEAR(between.times.taken / between.times.alone, 0.75, 0.02);
  const CollectivePrice larger = *curves.Of("a", 5000, Described);
  EXPECT_DOUBLE_EQ(larger.times.alone, 20000);
  EXPECT_DOUBLE_EQ(larger.times.taken, 20000);
  const CollectivePrice smaller = *curves.Of("a", 1, Described);
  EXPECT_DOUBLE_EQ(smaller.times.alone, 2);
  EXPECT_DOUBLE_EQ(smaller.times.beside, 4);
}

}  // namespace
}  // namespace tessera
