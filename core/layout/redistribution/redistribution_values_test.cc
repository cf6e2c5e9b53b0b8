// Tests redistribution between every pair of layouts: ranks get the right values, and the price is
// a metric and no less than that of the elements that must be received.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/layout/testing/rank_arrays.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

const AxisLayout kRows = AxisLayout::Split(0), kColumns = AxisLayout::Split(1);
const AxisLayout kSum = AxisLayout::Partial();
const AxisLayout kMax = AxisLayout::Partial(AxisLayout::Reduction::kMax);
const AxisLayout kMin = AxisLayout::Partial(AxisLayout::Reduction::kMin);
const AxisLayout kLse = AxisLayout::Partial(AxisLayout::Reduction::kLogSumExp);

struct Setting {
  std::vector<int> mesh;
  std::vector<AxisLayout> sources, targets;  // in addition to B
  std::vector<Shape> shapes;
};

std::vector<Setting> Settings() {
  const std::vector<AxisLayout> all = {kRows, kColumns, kSum};
  const std::vector<AxisLayout> units = {kRows, kColumns, kSum, AxisLayout::Split(0, 2),
                                         AxisLayout::Split(1, 3)};
  const std::vector<Shape> uneven = {{5, 7}, {4, 6}, {1, 9}, {13, 0}};
  std::vector<Setting> settings = {
      {{2}, all, all, uneven},
      {{3}, all, all, uneven},
      {{2, 2}, all, all, uneven},
      {{2, 3}, all, all, uneven},
      {{4, 2}, all, all, uneven},
      {{1, 3, 1}, all, all, {{5, 7}}},
      {{2, 2, 2}, all, all, {{5, 7}}},
      {{3}, units, units, {{5, 7}, {12, 18}, {7, 2}}},
      {{2, 2}, units, units, {{5, 7}, {8, 12}, {9, 2}}},
  };
  for (const std::vector<int>& mesh : {std::vector<int>{2}, {3}, {2, 2}, {2, 3}, {4, 2}}) {
    for (const AxisLayout& partial : {kMax, kMin, kLse}) {
      const std::vector<AxisLayout> along = {kRows, kColumns, partial};
      settings.push_back({mesh, along, along, {{5, 7}}});
    }
  }
  for (const AxisLayout& partial : {kMax, kLse}) {
    settings.push_back({{2, 2, 2}, {kRows, partial}, {kRows, kColumns}, {{5, 7}}});
  }
  return settings;
}

std::string NameOf(const Setting& setting) {
  std::string name = absl::StrCat("On", absl::StrJoin(setting.mesh, "x"));
  for (const AxisLayout& layout : setting.sources) {
    for (const char c : layout.ToString()) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) name.push_back(c);
    }
  }
  return name;
}

Mesh MakeMesh(const std::vector<int>& sizes) {
  std::vector<Mesh::Axis> axes;
  for (size_t i = 0; i < sizes.size(); ++i) axes.push_back({absl::StrCat("a", i), sizes[i]});
  return *Mesh::Create(std::move(axes));
}

// Integers, so that sums are exact.
std::vector<double> Values(const Shape& shape) {
  std::vector<double> values;
  for (int64_t i = 0; i < NumElements(shape); ++i) values.push_back(static_cast<double>(i % 97));
  return values;
}

// Returns whether steps can lead to every partial axis of `to`. No step makes partial maxima or
// partial log-sum-exps.
bool Reachable(const MeshLayout& from, const MeshLayout& to, const Mesh& mesh) {
  for (int i = 0; i < mesh.num_axes(); ++i) {
    if (mesh.axis(i).size == 1 || !to.axis(i).partial() || to.axis(i) == kSum) continue;
    if (from.axis(i) != to.axis(i)) return false;
  }
  return true;
}

// Returns the mean over all ranks of the number of elements that a rank needs and does not hold.
double MustReceive(const MeshLayout& from, const MeshLayout& to, const Shape& shape,
                   const Mesh& mesh) {
  if (to.partial()) return 0;
  bool reduced = false;
  for (int i = 0; i < mesh.num_axes(); ++i) {
    reduced = reduced || (mesh.axis(i).size > 1 && from.axis(i).partial());
  }
  double elements = 0;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const Box needed = BoxOf(to, shape, mesh, mesh.CoordinatesOf(rank));
    const Box held = BoxOf(from, shape, mesh, mesh.CoordinatesOf(rank));
    int64_t common = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t begin = std::max(needed.start[d], held.start[d]);
      const int64_t end =
          std::min(needed.start[d] + needed.extent[d], held.start[d] + held.extent[d]);
      common *= std::max<int64_t>(0, end - begin);
    }
    elements += static_cast<double>(NumElements(needed.extent) - (reduced ? 0 : common));
  }
  return elements / mesh.size();
}

// Returns whether Find may use `middle` as an intermediate layout: it is partial only on axes where
// an end is, and its units are 1 or those of the ends.
bool MayBeOnTheWay(const MeshLayout& from, const MeshLayout& middle, const MeshLayout& to) {
  for (int i = 0; i < middle.num_axes(); ++i) {
    const AxisLayout& layout = middle.axis(i);
    if (layout.partial() && !from.axis(i).partial() && !to.axis(i).partial()) return false;
    const auto is_it = [&](const AxisLayout& other) { return other == layout; };
    if (layout.split() && layout.unit != 1 && absl::c_none_of(from.axes(), is_it) &&
        absl::c_none_of(to.axes(), is_it)) {
      return false;
    }
  }
  return true;
}

class RedistributionValuesTest : public ::testing::TestWithParam<Setting> {
 protected:
  // The price is in elements.
  const RingPrices prices_{0, 1.0 / 8};
};

TEST_P(RedistributionValuesTest, RanksEndUpWithTheRightValues) {
  const Mesh mesh = MakeMesh(GetParam().mesh);
  for (const Shape& shape : GetParam().shapes) {
    RedistributionFinder finder(mesh, &prices_);
    const std::vector<double> values = Values(shape);
    for (const MeshLayout& from : AllLayouts(mesh, GetParam().sources)) {
      const RankArrays source = Distribute(values, shape, from, mesh);
      ASSERT_EQ(Difference(source, values, shape, mesh), "");
      for (const MeshLayout& to : AllLayouts(mesh, GetParam().targets)) {
        const auto path = finder.Find(from, to, {DType::kF64, shape});
        ASSERT_EQ(path.ok(), Reachable(from, to, mesh)) << path.status();
        if (!path.ok()) continue;
        RankArrays arrays = source;
        for (const RedistributionStep& step : (*path)->steps) {
          arrays = RunStep(step, arrays, shape, mesh);
        }
        EXPECT_TRUE(HoldSameElements(arrays.layout, to, shape, mesh));
        arrays.layout = to;
        ASSERT_EQ(Difference(arrays, values, shape, mesh), "")
            << ShapeToString(shape) << " from " << from.ToString(mesh) << " to "
            << to.ToString(mesh) << ":\n"
            << (*path)->ToString(mesh);
      }
    }
  }
}

TEST_P(RedistributionValuesTest, PricesAreAMetricAndCoverWhatMustBeReceived) {
  const Mesh mesh = MakeMesh(GetParam().mesh);
  const std::vector<MeshLayout> sources = AllLayouts(mesh, GetParam().sources);
  const std::vector<MeshLayout> targets = AllLayouts(mesh, GetParam().targets);
  for (const Shape& shape : GetParam().shapes) {
    RedistributionFinder finder(mesh, &prices_);
    const auto price = [&](const MeshLayout& from, const MeshLayout& to) {
      const auto path = finder.Find(from, to, {DType::kF64, shape});
      return path.ok() ? (*path)->seconds : HUGE_VAL;
    };
    for (const MeshLayout& from : sources) {
      for (const MeshLayout& to : targets) {
        const double direct = price(from, to);
        EXPECT_TRUE(direct == 0 || !HoldSameElements(from, to, shape, mesh));
        EXPECT_GE(direct + 1e-9, MustReceive(from, to, shape, mesh))
            << from.ToString(mesh) << " to " << to.ToString(mesh);
      }
    }
    std::vector<std::vector<double>> first, second;  // by source and target
    for (const MeshLayout& from : sources) {
      first.emplace_back();
      for (const MeshLayout& to : targets) first.back().push_back(price(from, to));
    }
    for (const MeshLayout& from : targets) {
      second.emplace_back();
      for (const MeshLayout& to : targets) second.back().push_back(price(from, to));
    }
    for (size_t a = 0; a < sources.size(); ++a) {
      for (size_t b = 0; b < targets.size(); ++b) {
        for (size_t c = 0; c < targets.size(); ++c) {
          if (!MayBeOnTheWay(sources[a], targets[b], targets[c])) continue;
          ASSERT_LE(first[a][c], first[a][b] + second[b][c] + 1e-9)
              << ShapeToString(shape) << ": " << sources[a].ToString(mesh) << ", "
              << targets[b].ToString(mesh) << ", " << targets[c].ToString(mesh);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, RedistributionValuesTest, ::testing::ValuesIn(Settings()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tessera
