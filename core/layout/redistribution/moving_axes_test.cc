#include "core/layout/redistribution/moving_axes.h"

#include <string>
#include <vector>

#include "core/layout/layout_text.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

const Mesh& Six() {
  static const Mesh mesh =
      *Mesh::Create({{"a", 2}, {"b", 2}, {"c", 1}, {"d", 2}, {"e", 2}, {"f", 2}});
  return mesh;
}

MeshLayout Parse(const std::string& text, const Mesh& mesh) {
  const absl::StatusOr<MeshLayout> layout = ParseMeshLayout(text, mesh);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *layout;
}

std::string Moving(const std::string& from, const std::string& to) {
  const MovingAxes moving(Parse(from, Six()), Parse(to, Six()), Six());
  std::string names;
  for (const int axis : moving.axes()) names += Six().axis(axis).name;
  return names;
}

TEST(MovingAxesTest, AxesMoveIfTheirLayoutsDiffer) {
  EXPECT_EQ(Moving("a: S(0), b: P", "a: S(0), b: S(1)"), "b");
  EXPECT_EQ(Moving("a: S(0), b: P, d: S(1)", "a: S(0), b: P, d: S(1)"), "");
  EXPECT_EQ(Moving("a: S(0), d: P(max)", "a: S(0, 2), d: P(max)"), "a");
  EXPECT_EQ(Moving("c: S(0)", "c: S(1)"), "") << "an axis of one rank";
}

TEST(MovingAxesTest, SplitsWithinAMovingSplitMove) {
  EXPECT_EQ(Moving("a: S(0), b: S(0), d: S(0)", "a: S(0), d: S(0)"), "bd");
  EXPECT_EQ(Moving("a: S(0), b: S(0)", "b: S(0), a: S(0)"), "ab");
  EXPECT_EQ(Moving("a: S(0), b: S(0), d: S(1)", "b: S(0), d: S(1)"), "ab");
  EXPECT_EQ(Moving("a: S(0), b: S(0)", "a: S(0), b: S(0), d: S(0)"), "d");
}

TEST(MovingAxesTest, AllAxesOfSmallMeshesMove) {
  const Mesh mesh = *Mesh::Create({{"a", 2}, {"b", 1}, {"c", 3}});
  const MeshLayout layout = Parse("a: S(0)", mesh);
  const MovingAxes moving(layout, layout, mesh);
  EXPECT_EQ(moving.axes(), absl::Span<const int>({0, 2}));
  EXPECT_EQ(moving.Submesh(mesh).ToString(), "a: 2, c: 3");
}

TEST(MovingAxesTest, WhatMovesIsOnTheSubmesh) {
  const MeshLayout from = Parse("a: S(0), b: S(0), d: S(1), e: P", Six());
  const MeshLayout to = Parse("a: S(0), d: S(1), b: S(1), f: S(0)", Six());
  const MovingAxes moving(from, to, Six());
  const Mesh submesh = moving.Submesh(Six());
  EXPECT_EQ(submesh.ToString(), "b: 2, e: 2, f: 2");
  EXPECT_EQ(moving.LocalShape({9, 8}, Six()), Shape({5, 4}));
  EXPECT_EQ(moving.Select(from).ToString(submesh), "b: S(0), e: P");
  EXPECT_EQ(moving.Select(to).ToString(submesh), "b: S(1), f: S(0)");
  EXPECT_EQ(moving.Restore(moving.Select(from)), from);
  EXPECT_EQ(moving.Restore(moving.Select(to)), to);
  RedistributionStep step;
  step.axes = {0, 2};
  step.from = moving.Select(from);
  step.to = moving.Select(to);
  const RedistributionStep restored = moving.Restore(step);
  EXPECT_EQ(restored.axes, (absl::InlinedVector<int, 4>{1, 5}));
  EXPECT_EQ(restored.from, from);
}

}  // namespace
}  // namespace tessera
