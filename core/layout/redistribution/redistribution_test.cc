#include "core/layout/redistribution/redistribution.h"

#include <string>
#include <thread>
#include <vector>

#include "core/layout/layout_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

MeshLayout Parse(absl::string_view text, const Mesh& mesh) {
  absl::StatusOr<MeshLayout> layout = ParseMeshLayout(text, mesh);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

Mesh MakeMesh(int a, int b) { return *Mesh::Create({{"a", a}, {"b", b}}); }

// Returns the bytes that each rank sends, divided by the bytes of the tensor.
double Share(const Mesh& mesh, absl::string_view from, absl::string_view to) {
  const TensorType type = {DType::kF32, {64, 64}};
  const RingPrices bytes(0, 1);
  RedistributionFinder finder(mesh, &bytes);
  const auto path = finder.Find(Parse(from, mesh), Parse(to, mesh), type);
  EXPECT_TRUE(path.ok()) << path.status();
  return (*path)->seconds / static_cast<double>(NumBytes(type));
}

TEST(RedistributionTest, SharesOfTheTensorAreThoseOfSingleAxisSteps) {
  const Mesh mesh = MakeMesh(2, 2);
  EXPECT_EQ(Share(mesh, "a: P, b: P", "B"), 1.5);
  EXPECT_EQ(Share(mesh, "a: S(0), b: S(0)", "b: S(0)"), 0.625);
  EXPECT_EQ(Share(mesh, "a: S(0), b: S(1)", "a: S(1), b: S(0)"), 0.5);
  EXPECT_EQ(Share(mesh, "b: S(0)", "a: S(0), b: S(0)"), 0.375);
  EXPECT_EQ(Share(MakeMesh(4, 8), "a: P, b: P", "B"), 1.9375);
  EXPECT_NEAR(Share(MakeMesh(4, 8), "a: S(0), b: S(0)", "a: S(1), b: S(1)"), 0.258, 0.0005);
}

std::string Steps(const Mesh& mesh, absl::string_view from, absl::string_view to,
                  const TensorType& type, const CollectivePrices& prices) {
  RedistributionFinder finder(mesh, &prices);
  const auto path = finder.Find(Parse(from, mesh), Parse(to, mesh), type);
  return path.ok() ? (*path)->ToString(mesh) : std::string(path.status().message());
}

TEST(RedistributionTest, PartialOverTwoAxesToSplitsIsOneReduceScatterForEach) {
  const RingPrices bytes(0, 1);
  const TensorType type = {DType::kF32, {64, 64}};
  EXPECT_EQ(Steps(MakeMesh(2, 2), "a: P, b: P", "a: S(0), b: S(1)", type, bytes),
            "reduce-scatter along b: a: P, b: P => a: P, b: S(1)\n"
            "reduce-scatter along a: a: P, b: S(1) => a: S(0), b: S(1)\n");
  EXPECT_EQ(Steps(MakeMesh(2, 2), "a: P, b: P", "a: S(0), b: S(0)", type, bytes),
            "reduce-scatter along a: a: P, b: P => a: S(0), b: P\n"
            "reduce-scatter along b: a: S(0), b: P => a: S(0), b: S(0)\n");
}

TEST(RedistributionTest, TheOrderOfNestedSplitsCosts) {
  const RingPrices bytes(0, 1);
  const TensorType type = {DType::kF32, {64, 64}};
  EXPECT_EQ(Steps(MakeMesh(2, 2), "a: S(0), b: S(0)", "a: S(0)", type, bytes),
            "all-gather along b: a: S(0), b: S(0) => a: S(0)\n");
  EXPECT_EQ(Steps(MakeMesh(2, 2), "b: S(0), a: S(0)", "a: S(0)", type, bytes),
            "all-to-all along a: b: S(0), a: S(0) => a: S(1), b: S(0)\n"
            "all-gather along b: a: S(1), b: S(0) => a: S(1)\n"
            "all-to-all along a: a: S(1) => a: S(0)\n");
}

// Each call costs one second.
class CallPrices final : public CollectivePrices {
 public:
  double Seconds(const CollectiveCall& call, const Mesh& mesh) const override { return 1; }
};

// If prices are equal, sums are taken along the innermost axis first, that is over consecutive
// ranks.
TEST(RedistributionTest, ThePricesChooseTheSteps) {
  const TensorType type = {DType::kF32, {64, 64}};
  EXPECT_EQ(Steps(MakeMesh(2, 2), "a: P, b: P", "B", type, RingPrices(0, 1)),
            "reduce-scatter along b: a: P, b: P => a: P, b: S(0)\n"
            "all-reduce along a: a: P, b: S(0) => b: S(0)\n"
            "all-gather along b: b: S(0) => B\n");
  EXPECT_EQ(Steps(MakeMesh(2, 2), "a: P, b: P", "B", type, CallPrices()),
            "all-reduce along b: a: P, b: P => a: P\n"
            "all-reduce along a: a: P => B\n");
}

TEST(RedistributionTest, LocalStepsSendNothing) {
  const TensorType type = {DType::kF32, {5, 7}};
  const Mesh mesh = MakeMesh(2, 3);
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"B", "a: S(0), b: S(0)"},
                                                        {"B", "a: P"},
                                                        {"a: S(1)", "a: P, b: P"},
                                                        {"b: P", "a: P, b: P"}}) {
    EXPECT_EQ(Share(mesh, from, to), 0) << from << " to " << to;
  }
}

TEST(RedistributionTest, CallsNameOperationElementsAndAxes) {
  const Mesh mesh = MakeMesh(2, 3);
  const TensorType type = {DType::kBF16, {5, 7}};
  const auto calls = [&](RedistributionStep::Kind kind, absl::InlinedVector<int, 4> axes,
                         absl::string_view from, absl::string_view to) {
    std::string text;
    for (const CollectiveCall& call :
         CollectivesOf({kind, std::move(axes), Parse(from, mesh), Parse(to, mesh)}, type, mesh)) {
      text += ToString(call, mesh) + "\n";
    }
    return text;
  };
  using Kind = RedistributionStep::Kind;
  // Rows are consecutive in memory; parts of columns are packed with their padding.
  EXPECT_EQ(calls(Kind::kAllGather, {0}, "a: S(0)", "B"),
            "all-gather of 35 bf16 in parts of 21 along a\n");
  EXPECT_EQ(calls(Kind::kAllGather, {0}, "a: S(1)", "B"),
            "all-gather of 40 bf16 in parts of 20 along a\n");
  EXPECT_EQ(calls(Kind::kReduceScatter, {1}, "b: P", "b: S(0)"),
            "reduce-scatter of 35 bf16 in parts of 14 (sum) along b\n");
  EXPECT_EQ(calls(Kind::kReduceScatter, {1}, "b: P(max)", "b: S(1)"),
            "reduce-scatter of 45 bf16 in parts of 15 (max) along b\n");
  EXPECT_EQ(calls(Kind::kAllToAll, {1}, "b: S(0)", "b: S(1)"),
            "all-to-all of 18 bf16 in parts of 6 along b\n");
  EXPECT_EQ(calls(Kind::kAllReduce, {0}, "a: P(lse)", "B"),
            "all-reduce of 35 bf16 (max) along a\nall-reduce of 35 bf16 (sum) along a\n");
  EXPECT_EQ(calls(Kind::kReduceScatter, {0}, "a: P(lse)", "a: S(0)"),
            "all-reduce of 35 bf16 (max) along a\n"
            "reduce-scatter of 35 bf16 in parts of 21 (sum) along a\n");
  EXPECT_EQ(calls(Kind::kSlice, {0}, "B", "a: S(0)"), "");
}

TEST(RedistributionTest, WhatCannotBeReachedIsAnError) {
  const RingPrices bytes(0, 1);
  const TensorType type = {DType::kF32, {4, 4}};
  EXPECT_THAT(Steps(MakeMesh(2, 2), "a: S(0)", "a: P(max)", type, bytes),
              HasSubstr("cannot be brought from layout 'a: S(0)' to 'a: P(max)'"));
  EXPECT_THAT(Steps(MakeMesh(2, 2), "a: S(2)", "B", type, bytes), HasSubstr("does not fit [4, 4]"));
}

TEST(RedistributionTest, ThreadsShareOneFinder) {
  const Mesh mesh = MakeMesh(2, 2);
  const RingPrices bytes(0, 1);
  RedistributionFinder finder(mesh, &bytes);
  std::vector<const Redistribution*> found(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      found[i] =
          *finder.Find(Parse("a: P, b: P", mesh), Parse("b: S(1)", mesh), {DType::kF32, {8, 8}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Redistribution* path : found) EXPECT_EQ(path, found[0]);
}

}  // namespace
}  // namespace tessera
