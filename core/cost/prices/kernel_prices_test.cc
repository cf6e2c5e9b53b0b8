#include "core/cost/prices/kernel_prices.h"

#include <string>
#include <vector>

#include "core/kernels/reference/backend.h"
#include "core/ops/operator_list.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// Kernels of relu on rows of 8 f64. A row takes 8 FLOPs.
class KernelPricesTest : public ::testing::Test {
 protected:
  PlannedKernel Relu(int64_t rows, int threads = 1) const {
    PlannedKernel planned;
    planned.request.op = "relu";
    planned.request.inputs = {{DType::kF64, {rows, 8}}};
    planned.request.outputs = planned.request.inputs;
    planned.request.threads = threads;
    planned.key = planned.request.Key();
    planned.op = FindOperator("relu");
    for (const Kernel* kernel : backend_->kernels()) {
      if (kernel->op() == "relu") planned.kernel = kernel;
    }
    return planned;
  }
  static OpCost CostOf(int64_t rows) {
    const auto work = static_cast<double>(8 * rows);
    return {.flops = work, .bytes = 16 * work};
  }
  void Measure(int64_t rows, double seconds, int ranks = 1) {
    prices_.Add(Relu(rows), ranks, CostOf(rows), DType::kF64, seconds);
  }
  // Described by a rate of 1 FLOP per second.
  Price Of(int64_t rows, int ranks = 1, int threads = 1) const {
    return prices_.Of(Relu(rows, threads), ranks, CostOf(rows), DType::kF64,
                      [](const OpCost& cost, DType) { return cost.flops; });
  }

  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  KernelPrices prices_;
};

TEST_F(KernelPricesTest, WhatNothingIsKnownOfIsDescribed) {
  EXPECT_EQ(Of(4).seconds, 32);
  EXPECT_EQ(Of(4).source, PriceSource::kDescribed);
}

TEST_F(KernelPricesTest, APriceIsTheMedianOfTheLastMeasurements) {
  for (const double seconds : {1000.0, 1000.0, 1000.0, 10.0, 12.0, 11.0, 900.0, 10.0}) {
    Measure(4, seconds);
  }
  EXPECT_EQ(Of(4).seconds, 11);
  EXPECT_EQ(Of(4).source, PriceSource::kMeasured);
}

TEST_F(KernelPricesTest, OtherSizesHaveTheRatioOfTheNearestOnes) {
  Measure(4, 2 * 32);
  EXPECT_NEAR(Of(100).seconds, 2 * 800, 1e-6);
  EXPECT_EQ(Of(100).source, PriceSource::kInterpolated);
  Measure(1000, 8 * 8000);
  const double between = Of(64).seconds / (64 * 8);
  EXPECT_GT(between, 2);
  EXPECT_LT(between, 8);
  EXPECT_NEAR(Of(1001).seconds / (8 * 1001), 8, 0.1) << "almost a measured size";
}

TEST_F(KernelPricesTest, AKernelThatHasRunNothingLikeItHasTheRatioOfOthers) {
  Measure(4, 2 * 32);
  MeasuredWork of_another = prices_.works().begin()->second;
  of_another.family = "relu f64 -> f64 threads=1 by another";
  KernelPrices others;
  others.Set({Relu(4).key, "another", 1}, of_another);
  const Price price = others.Of(Relu(100), 1, CostOf(100), DType::kF64,
                                [](const OpCost& cost, DType) { return cost.flops; });
  EXPECT_NEAR(price.seconds, 2 * 800, 1e-6);
  EXPECT_EQ(price.source, PriceSource::kInterpolated);
}

// As with other attributes or an epilogue, which may have operands of its own.
TEST_F(KernelPricesTest, LikeRequestsCountMoreThanOthersOfTheOperator) {
  Measure(4, 2 * 32);
  MeasuredWork unlike = prices_.works().begin()->second;
  unlike.family = "relu exact=true f64 f64 -> f64 threads=1 by loops";
  unlike.dimensions = {4, 8, 4, 8};
  unlike.seconds = {20 * 32};
  KernelPrices others;
  others.Set({"relu of another kind", "loops", 1}, unlike);
  const DescribedSeconds flops = [](const OpCost& cost, DType) { return cost.flops; };
  EXPECT_NEAR(others.Of(Relu(5), 1, CostOf(5), DType::kF64, flops).seconds, 20 * 40, 1e-6);
  others.AddAll(prices_);
  const double ratio = others.Of(Relu(5), 1, CostOf(5), DType::kF64, flops).seconds / 40;
  EXPECT_GT(ratio, 2);
  EXPECT_LT(ratio, 3);
  // Work with fewer operands says nothing about one with more.
  PlannedKernel more = Relu(5);
  more.request.inputs.assign(3, more.request.inputs[0]);
  more.key = more.request.Key();
  EXPECT_EQ(others.Of(more, 1, CostOf(5), DType::kF64, flops).source, PriceSource::kDescribed);
}

TEST_F(KernelPricesTest, DimensionsAreThoseOfRows) {
  KernelRequest request;
  request.inputs = {
      {DType::kF32, {2, 3, 5}}, {DType::kF32, {}}, {DType::kF32, {7}}, {DType::kF32, {4, 0}}};
  EXPECT_THAT(DimensionsOf(request), ::testing::ElementsAre(6, 5, 1, 7, 0, 0));
}

TEST_F(KernelPricesTest, OtherThreadsAndNeighboursHaveOtherPrices) {
  Measure(4, 64);
  EXPECT_EQ(Of(4, /*ranks=*/2).source, PriceSource::kDescribed);
  EXPECT_EQ(Of(4, /*ranks=*/1, /*threads=*/2).source, PriceSource::kDescribed);
  Measure(4, 80, /*ranks=*/2);
  EXPECT_EQ(Of(4, 2).seconds, 80);
  EXPECT_EQ(Of(4).seconds, 64);
}

TEST_F(KernelPricesTest, ARequestHasThePriceOfItsFastestKernel) {
  const auto of = [this](int64_t rows) {
    return prices_.OfRequest(Relu(rows).request, 1, CostOf(rows), DType::kF64,
                             [](const OpCost& cost, DType) { return cost.flops; });
  };
  EXPECT_EQ(of(4).source, PriceSource::kDescribed);
  Measure(4, 64);
  EXPECT_EQ(of(4).seconds, 64);
  EXPECT_EQ(of(4).source, PriceSource::kMeasured);
  MeasuredWork faster = prices_.works().begin()->second;
  faster.seconds = {48};
  prices_.Set({Relu(4).key, "another", 1}, faster);
  prices_.Set({Relu(4).key, "of two ranks", 2},
              {.family = "", .dtype = {}, .cost = {}, .dimensions = {}, .seconds = {1}});
  EXPECT_EQ(of(4).seconds, 48);
  EXPECT_EQ(of(5).source, PriceSource::kInterpolated);
  EXPECT_GT(of(5).seconds, 40);
}

TEST_F(KernelPricesTest, NewerMeasurementsComeLast) {
  for (int i = 0; i < 4; ++i) Measure(4, 10);
  KernelPrices newer;
  for (int i = 0; i < 3; ++i) newer.Add(Relu(4), 1, CostOf(4), DType::kF64, 20);
  newer.Add(Relu(7), 1, CostOf(7), DType::kF64, 5);
  prices_.AddAll(newer);
  EXPECT_EQ(Of(4).seconds, 20);
  EXPECT_EQ(Of(7).seconds, 5);
}

// A Program of two relus, the second of them beside an all-reduce, and a copy to the host.
class PricesOfStepsTest : public KernelPricesTest {
 protected:
  void SetUp() override {
    program_.kernels.push_back(Relu(4));
    for (const MemorySpace space : {MemorySpace::kDevice, MemorySpace::kOffloadHost}) {
      Buffer buffer;
      buffer.space = space;
      ProgramValue value;
      value.type = {DType::kF32, {8}};
      value.buffer = program_.buffers.push_back(buffer);
      program_.values.push_back(value);
    }
    Instruction relu;
    relu.kernel = KernelId(0);
    relu.cost = CostOf(4);
    Instruction reduce;
    reduce.kind = InstructionKind::kCollective;
    reduce.collective = program_.FindOrAddCollective({.elements = 8, .mesh_axes = {"data"}});
    Instruction copy;
    copy.kind = InstructionKind::kCopy;
    copy.inputs = {ProgramValueId(0)};
    copy.outputs = {ProgramValueId(1)};
    program_.instructions = {relu, reduce, relu, copy};
  }

  Program program_;
  const Table<InstructionId, TimeSpan> times_ = {{0, 2}, {2, 8}, {3, 7}, {8, 9}};
};

TEST_F(PricesOfStepsTest, InstructionsBesideACollectiveDoNotCount) {
  prices_.AddStep(program_, times_, 1);
  EXPECT_EQ(Of(4).seconds, 2);
  EXPECT_EQ(prices_.OfGap(1).seconds, 0);
  const std::string copy = CopyName(program_, program_.instructions[InstructionId(3)]);
  EXPECT_EQ(copy, "copy of 32 bytes from device to offload host");
  EXPECT_EQ(prices_.OfCopy(copy, 1, 5).seconds, 1);
  EXPECT_EQ(prices_.OfCopy(copy, 2, 5).seconds, 5);
}

TEST_F(PricesOfStepsTest, AKernelThatNeverRanAloneCountsNevertheless) {
  prices_.AddStep(program_, {{4, 6}, {2, 8}, {3, 7}, {8, 9}}, 1);
  EXPECT_EQ(Of(4).seconds, 3);
}

TEST_F(PricesOfStepsTest, ComputationHasGaps) {
  prices_.AddComputation(program_, times_, /*seconds=*/10, 2);
  EXPECT_EQ(Of(4, 2).seconds, 3) << "the mean of both";
  EXPECT_EQ(prices_.OfGap(2).seconds, 1) << "10 s less 2 + 4 + 1 of three instructions";
  EXPECT_EQ(prices_.OfGap(2).source, PriceSource::kMeasured);
  EXPECT_EQ(prices_.OfGap(1).source, PriceSource::kDescribed);
}

TEST_F(KernelPricesTest, AFamilyHasNoSizes) {
  EXPECT_EQ(FamilyOf(Relu(4)), FamilyOf(Relu(5)));
  PlannedKernel sum = Relu(4);
  sum.request.op = "reduce_sum";
  sum.request.attributes = {{"axes", std::vector<int64_t>{0}}, {"keep_dims", false}};
  EXPECT_EQ(FamilyOf(sum), "reduce_sum axes=0 keep_dims=false f64 -> f64 threads=1 by loops");
}

}  // namespace
}  // namespace tessera
