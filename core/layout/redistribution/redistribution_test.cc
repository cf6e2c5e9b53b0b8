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

// A byte costs a second. Collectives along several axes cost so much that none is taken.
class OneAxisPrices final : public CollectivePrices {
 public:
  double Seconds(const CollectiveCall& call, const Mesh& mesh) const override {
    return call.axes.size() == 1 ? bytes_.Seconds(call, mesh) : 1e12;
  }

 private:
  const RingPrices bytes_{0, 1};
};

// Returns the bytes that each rank sends, divided by the bytes of the tensor.
double Share(const Mesh& mesh, absl::string_view from, absl::string_view to,
             const CollectivePrices& prices = RingPrices(0, 1)) {
  const TensorType type = {DType::kF32, {64, 64}};
  RedistributionFinder finder(mesh, &prices);
  const auto path = finder.Find(Parse(from, mesh), Parse(to, mesh), type);
  EXPECT_TRUE(path.ok()) << path.status();
  return (*path)->seconds / static_cast<double>(NumBytes(type));
}

TEST(RedistributionTest, OneCollectiveAlongSeveralAxesSendsLess) {
  const Mesh mesh = MakeMesh(2, 2), large = MakeMesh(4, 8);
  struct Case {
    const Mesh& mesh;
    absl::string_view from, to;
    double axis_by_axis, share;
  };
  for (const Case& c : std::vector<Case>{
           {mesh, "a: P, b: P", "B", 1.5, 1.5},
           {mesh, "a: S(0), b: S(0)", "b: S(0)", 0.625, 0.5625},
           {mesh, "a: S(0), b: S(1)", "a: S(1), b: S(0)", 0.5, 0.4375},
           {mesh, "b: S(0)", "a: S(0), b: S(0)", 0.375, 0.3125},
           {mesh, "a: S(0), b: S(0)", "a: S(1), b: S(1)", 0.5, 3.0 / 16},
           {large, "a: P, b: P", "B", 1.9375, 1.9375},
           {large, "a: S(0), b: S(0)", "a: S(1), b: S(1)", 0.2578125, 31.0 / 1024},
       }) {
    EXPECT_DOUBLE_EQ(Share(c.mesh, c.from, c.to, OneAxisPrices()), c.axis_by_axis)
        << c.from << " to " << c.to;
    EXPECT_DOUBLE_EQ(Share(c.mesh, c.from, c.to), c.share) << c.from << " to " << c.to;
  }
}

std::string Steps(const Mesh& mesh, absl::string_view from, absl::string_view to,
                  const TensorType& type, const CollectivePrices& prices) {
  RedistributionFinder finder(mesh, &prices);
  const auto path = finder.Find(Parse(from, mesh), Parse(to, mesh), type);
  return path.ok() ? (*path)->ToString(mesh) : std::string(path.status().message());
}

TEST(RedistributionTest, StepsAreAlongOneAxisOrSeveral) {
  const RingPrices bytes(0, 1);
  const OneAxisPrices one_axis;
  const TensorType type = {DType::kF32, {64, 64}};
  const Mesh mesh = MakeMesh(2, 2);
  EXPECT_EQ(Steps(mesh, "a: P, b: P", "a: S(0), b: S(1)", type, bytes),
            "reduce-scatter along a and b: a: P, b: P => a: S(0), b: S(1)\n");
  EXPECT_EQ(Steps(mesh, "a: P, b: P", "a: S(0), b: S(1)", type, one_axis),
            "reduce-scatter along b: a: P, b: P => a: P, b: S(1)\n"
            "reduce-scatter along a: a: P, b: S(1) => a: S(0), b: S(1)\n");
  EXPECT_EQ(Steps(mesh, "a: P, b: P", "a: S(0), b: S(0)", type, one_axis),
            "reduce-scatter along a: a: P, b: P => a: S(0), b: P\n"
            "reduce-scatter along b: a: S(0), b: P => a: S(0), b: S(0)\n");
  EXPECT_EQ(Steps(mesh, "b: S(0), a: S(0)", "B", type, bytes),
            "all-gather along a and b: b: S(0), a: S(0) => B\n");
  EXPECT_EQ(Steps(mesh, "a: S(0), b: S(0)", "b: S(1), a: S(1)", type, bytes),
            "all-to-all along a and b: a: S(0), b: S(0) => b: S(1), a: S(1)\n");
}

TEST(RedistributionTest, TheOrderOfNestedSplitsCosts) {
  const TensorType type = {DType::kF32, {64, 64}};
  const Mesh mesh = MakeMesh(2, 2);
  EXPECT_EQ(Steps(mesh, "a: S(0), b: S(0)", "a: S(0)", type, RingPrices(0, 1)),
            "all-gather along b: a: S(0), b: S(0) => a: S(0)\n");
  EXPECT_EQ(Steps(mesh, "b: S(0), a: S(0)", "a: S(0)", type, OneAxisPrices()),
            "all-to-all along a: b: S(0), a: S(0) => a: S(1), b: S(0)\n"
            "all-gather along b: a: S(1), b: S(0) => a: S(1)\n"
            "all-to-all along a: a: S(1) => a: S(0)\n");
  EXPECT_EQ(Steps(mesh, "b: S(0), a: S(0)", "a: S(0)", type, RingPrices(0, 1)),
            "all-to-all along a and b: b: S(0), a: S(0) => b: S(1), a: S(1)\n"
            "all-to-all along a: b: S(1), a: S(1) => a: S(0), b: S(1)\n"
            "all-gather along b: a: S(0), b: S(1) => a: S(0)\n");
}

// Each call costs as much as the ranks of its group.
class RankPrices final : public CollectivePrices {
 public:
  double Seconds(const CollectiveCall& call, const Mesh& mesh) const override {
    double ranks = 0;
    for (const int axis : call.axes) ranks += mesh.axis(axis).size;
    return ranks;
  }
};

// If prices are equal, the fewest steps are taken, and sums along the innermost axis first, that is
// over consecutive ranks.
TEST(RedistributionTest, ThePricesChooseTheSteps) {
  const TensorType type = {DType::kF32, {64, 64}};
  const Mesh mesh = MakeMesh(2, 2);
  EXPECT_EQ(Steps(mesh, "a: P, b: P", "B", type, RingPrices(0, 1)),
            "all-reduce along a and b: a: P, b: P => B\n");
  EXPECT_EQ(Steps(mesh, "a: P, b: P", "B", type, RankPrices()),
            "all-reduce along a and b: a: P, b: P => B\n");
  EXPECT_EQ(Steps(mesh, "a: P, b: P", "B", type, RingPrices(1, 1)),
            "reduce-scatter along b: a: P, b: P => a: P, b: S(0)\n"
            "all-reduce along a: a: P, b: S(0) => b: S(0)\n"
            "all-gather along b: b: S(0) => B\n");
  EXPECT_EQ(Steps(mesh, "a: P, b: P", "B", type, RingPrices(1, 0)),
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

TEST(RedistributionTest, CallsAlongSeveralAxesHaveAPartForEachRank) {
  const Mesh mesh = MakeMesh(2, 3);
  const TensorType type = {DType::kBF16, {5, 7}};
  const auto calls = [&](RedistributionStep::Kind kind, absl::string_view from,
                         absl::string_view to) {
    RedistributionStep step;
    step.kind = kind;
    step.axes = {0, 1};
    step.from = Parse(from, mesh);
    step.to = Parse(to, mesh);
    std::string text;
    for (const CollectiveCall& call : CollectivesOf(step, type, mesh)) {
      text += ToString(call, mesh) + "\n";
    }
    return text;
  };
  using Kind = RedistributionStep::Kind;
  // 3 rows are split into 1, 1 and 1, and the last rank has none: rows are consecutive.
  EXPECT_EQ(calls(Kind::kAllGather, "a: S(0), b: S(0)", "B"),
            "all-gather of 35 bf16 in parts of 7 along a, b\n");
  // The order of ranks is not that of rows.
  EXPECT_EQ(calls(Kind::kAllGather, "b: S(0), a: S(0)", "B"),
            "all-gather of 42 bf16 in parts of 7 along a, b\n");
  EXPECT_EQ(calls(Kind::kAllGather, "a: S(0), b: S(1)", "B"),
            "all-gather of 54 bf16 in parts of 9 along a, b\n");
  EXPECT_EQ(calls(Kind::kAllReduce, "a: P(max), b: P(max)", "B"),
            "all-reduce of 35 bf16 (max) along a, b\n");
  EXPECT_EQ(calls(Kind::kReduceScatter, "a: P(lse), b: P(lse)", "a: S(0), b: S(0)"),
            "all-reduce of 35 bf16 (max) along a, b\n"
            "reduce-scatter of 35 bf16 in parts of 7 (sum) along a, b\n");
  EXPECT_EQ(calls(Kind::kAllToAll, "a: S(0), b: S(0)", "a: S(1), b: S(1)"),
            "all-to-all of 12 bf16 in parts of 2 along a, b\n");
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
