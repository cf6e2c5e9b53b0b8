// Tests that steps are read as they are written, and that those which are accepted give ranks the
// right values.
#include "core/layout/redistribution/stated_path.h"

#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "core/layout/layout_text.h"
#include "core/layout/testing/random_path.h"
#include "core/layout/testing/rank_arrays.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

using Kind = RedistributionStep::Kind;

Mesh DataByModel() { return *Mesh::Create({{"data", 2}, {"model", 3}, {"one", 1}}); }

MeshLayout Parse(const char* text) { return *ParseMeshLayout(text, DataByModel()); }

TEST(ParseStepTest, ReadsWhatToStringWrites) {
  const Mesh mesh = MeshOfSizes({2, 3, 2});
  std::mt19937 engine(7);
  std::set<Kind> kinds;
  for (int i = 0; i < 200; ++i) {
    const MeshLayout from =
        i % 2 == 0 ? MeshLayout(3) : MeshLayout(std::vector<AxisLayout>(3, AxisLayout::Partial()));
    for (const RedistributionStep& step : DrawPath(from, 4, {DType::kF32, {9, 8}}, mesh, engine)) {
      const auto parsed = ParseStep(step.ToString(mesh), mesh);
      ASSERT_TRUE(parsed.ok()) << parsed.status();
      EXPECT_EQ(parsed->kind, step.kind);
      EXPECT_EQ(parsed->axes, step.axes);
      EXPECT_EQ(parsed->from, step.from);
      EXPECT_EQ(parsed->to, step.to);
      kinds.insert(step.kind);
    }
  }
  EXPECT_EQ(kinds.size(), 6u);
}

TEST(ParseStepTest, SaysWhatIsWrong) {
  const std::vector<std::pair<const char*, const char*>> faults = {
      {"", "is of no known kind; one looks like 'all-gather along data: data: S(0) => B'"},
      {"gather along data: data: S(0) => B", "its kind is all-gather, reduce-scatter"},
      {"all-gather: data: S(0) => B", "names no axis"},
      {"all-gather along : data: S(0) => B", "names no axis"},
      {"all-gather along data and data: data: S(0) => B", "names an axis twice"},
      {"all-gather along rows: data: S(0) => B", "'rows'"},
      {"all-gather along data", "lacks a layout"},
      {"all-gather along data: data: S(0)", "lacks a layout"},
      {"all-gather along data: data: S => B", "'S' is no layout"},
      {"all-gather along data: data: S(0) => B => B", "names no axis"},
  };
  for (const auto& [text, fault] : faults) {
    const auto step = ParseStep(text, DataByModel());
    EXPECT_TRUE(absl::IsInvalidArgument(step.status())) << text;
    EXPECT_THAT(step.status().message(), HasSubstr(fault));
  }
  const auto spaced =
      ParseStep(" all-reduce along model and data: model: P,data: P => B", DataByModel());
  ASSERT_TRUE(spaced.ok()) << spaced.status();
  EXPECT_EQ(spaced->ToString(DataByModel()),
            "all-reduce along data and model: data: P, model: P => B");
}

// Returns what is wrong with a path of one step; "" if nothing is.
std::string Fault(const char* from, const char* step, const char* to) {
  const auto parsed = ParseStep(step, DataByModel());
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  const absl::Status status =
      CheckPath({&*parsed, 1}, Parse(from), Parse(to), {DType::kF32, {4, 6}}, DataByModel());
  return std::string(status.message());
}

TEST(CheckPathTest, SaysWhatIsWrong) {
  EXPECT_EQ(Fault("data: P", "all-reduce along data: data: P => B", "B"), "");
  // Ranks hold the same elements in both layouts.
  EXPECT_EQ(Fault("data: S(0, 2)", "all-gather along data: data: S(0) => B", "one: S(0)"), "");
  EXPECT_EQ(Fault("data: P", "all-reduce along data: data: P => B", "data: S(0)"),
            "its steps end in layout 'B' instead of 'data: S(0)'");
  EXPECT_EQ(Fault("data: S(1)", "all-gather along data: data: S(0) => B", "B"),
            "step 'all-gather along data: data: S(0) => B' begins where the value is in layout "
            "'data: S(1)'");
  EXPECT_EQ(Fault("data: S(2)", "all-gather along data: data: S(2) => B", "B"),
            "layout 'data: S(2)' does not fit [4, 6]: S(2) along axis 'data' splits a dimension "
            "that is not in 0..1");
  EXPECT_THAT(Fault("data: S(0)", "all-gather along data: data: S(2) => B", "B"),
              HasSubstr("has a layout that does not fit"));
  EXPECT_THAT(Fault("one: S(0)", "all-gather along one: one: S(0) => B", "B"),
              HasSubstr("has a layout along one, which has one rank"));
  EXPECT_THAT(Fault("B", "slice along one: B => B", "B"),
              HasSubstr("is along one, which has one rank"));
  EXPECT_THAT(Fault("data: S(0), model: P",
                    "all-gather along data: data: S(0), model: P => model: S(0)", "model: S(0)"),
              HasSubstr("changes the layout along other axes than its own"));
  const std::vector<std::vector<const char*>> impossible = {
      {"data: P", "all-gather along data: data: P => B", "B", "innermost splits to B"},
      {"data: S(0), model: S(0)", "all-gather along data: data: S(0), model: S(0) => model: S(0)",
       "model: S(0)", "innermost splits to B"},
      {"data: S(0)", "all-gather along data: data: S(0) => data: S(1)", "data: S(1)",
       "innermost splits to B"},
      {"data: S(0)", "all-reduce along data: data: S(0) => B", "B", "partial values to B"},
      {"B", "reduce-scatter along data: B => data: S(0)", "data: S(0)",
       "partial values to innermost splits"},
      {"data: S(0)", "all-to-all along data: data: S(0) => data: S(0, 2)", "data: S(0, 2)",
       "splits of other dimensions"},
      {"data: S(0), model: S(1)",
       "all-to-all along data and model: data: S(0), model: S(1) => data: S(1), model: S(0)",
       "data: S(1), model: S(0)", "splits of other dimensions"},
      {"B", "slice along data and model: B => data: S(0), model: S(1)", "data: S(0), model: S(1)",
       "along one axis"},
      {"data: P(max)", "slice along data: data: P(max) => data: S(0)", "data: S(0)",
       "B to a split"},
      {"B", "zero elsewhere along data: B => data: P(max)", "data: P(max)", "to P"},
  };
  for (const std::vector<const char*>& one : impossible) {
    EXPECT_THAT(Fault(one[0], one[1], one[2]), HasSubstr("is not possible")) << one[1];
    EXPECT_THAT(Fault(one[0], one[1], one[2]), HasSubstr(one[3])) << one[1];
  }
  // A sum of maxima is no maximum of sums.
  EXPECT_THAT(Fault("model: P(max)",
                    "zero elsewhere along data: model: P(max) => data: P, model: P(max)", "B"),
              HasSubstr("does not fit"));
}

TEST(CheckPathTest, WhatItAcceptsGivesTheRightValues) {
  std::mt19937 engine(41);
  std::map<Kind, int> along_one, along_several;
  for (const std::vector<int>& sizes :
       std::vector<std::vector<int>>{{3}, {2, 3}, {4, 2}, {2, 2, 2}, {2, 1, 3}, {2, 2, 2, 2, 2}}) {
    const Mesh mesh = MeshOfSizes(sizes);
    for (const Shape& shape : std::vector<Shape>{{5, 7}, {8, 12}, {3, 5, 4}, {9}, {1, 6}, {4, 0}}) {
      std::vector<double> values;
      for (int64_t i = 0; i < NumElements(shape); ++i)
        values.push_back(static_cast<double>(i % 97));
      const TensorType type = {DType::kF64, shape};
      for (int i = 0; i < 60; ++i) {
        const auto reduction = static_cast<AxisLayout::Reduction>(i % 4);
        const AxisLayout along =
            i % 3 == 0 ? AxisLayout::Broadcast() : AxisLayout::Partial(reduction);
        MeshLayout from(std::vector<AxisLayout>(mesh.num_axes(), along));
        RankArrays arrays = Distribute(values, shape, from, mesh);
        const std::vector<RedistributionStep> steps = DrawPath(from, 6, type, mesh, engine);
        std::string text = from.ToString(mesh) + "\n";
        for (const RedistributionStep& step : steps) {
          arrays = RunStep(step, arrays, shape, mesh);
          text += step.ToString(mesh) + "\n";
          ASSERT_EQ(Difference(arrays, values, shape, mesh), "")
              << ShapeToString(shape) << " " << text;
          ++(step.axes.size() == 1 ? along_one : along_several)[step.kind];
        }
      }
    }
  }
  EXPECT_EQ(along_one.size(), 6u);
  EXPECT_EQ(along_several.size(), 4u);  // a slice and zeros elsewhere are along one axis
}

TEST(RedistributionFinderTest, ReturnsWhatWasStated) {
  const Mesh mesh = DataByModel();
  const RingPrices prices(0, 1);
  RedistributionFinder finder(mesh, &prices);
  const TensorType type = {DType::kF32, {4, 6}}, other = {DType::kF32, {4, 12}};
  const MeshLayout from = Parse("data: P, model: P"), to = Parse("B");
  std::vector<RedistributionStep> steps;
  for (const char* text : {"all-reduce along data: data: P, model: P => model: P",
                           "all-reduce along model: model: P => B"}) {
    steps.push_back(*ParseStep(text, mesh));
  }
  ASSERT_TRUE(finder.State(from, to, type, steps).ok());
  EXPECT_EQ((*finder.Find(from, to, type))->steps.size(), 2u);
  // All-reduces of 24 elements over 2 ranks, and over 3: 2 (d - 1) / d of their 96 bytes.
  EXPECT_DOUBLE_EQ((*finder.Find(from, to, type))->seconds, 96 + 128);
  EXPECT_EQ((*finder.Find(from, to, other))->steps.size(), 1u);
  EXPECT_TRUE(finder.used().empty());
  ASSERT_TRUE(finder.Use(from, to, other).ok());
  ASSERT_TRUE(finder.Use(from, to, type).ok());
  ASSERT_TRUE(finder.Use(to, to, type).ok());  // of no step
  const std::vector<UsedRedistribution> used = finder.used();
  ASSERT_EQ(used.size(), 2u);
  EXPECT_EQ(used[0].path, *finder.Find(from, to, type));
  EXPECT_EQ(used[1].type, other);

  EXPECT_EQ(finder.State(from, to, type, steps).message(),
            "it is stated twice, or was found before");
  steps.pop_back();
  EXPECT_THAT(finder.State(from, to, {DType::kF32, {8, 8}}, steps).message(),
              HasSubstr("end in layout 'model: P'"));
}

}  // namespace
}  // namespace tessera
