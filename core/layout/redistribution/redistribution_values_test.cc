// Tests redistribution between every pair of layouts: ranks get the right values, and the price is
// a metric and no less than that of the elements that must be received.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "core/layout/redistribution/moving_axes.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/layout/redistribution/redistribution_prices.h"
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
      {{2, 3}, units, units, {{5, 7}, {12, 18}}},
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

// The price is in elements. Collectives along several axes cost so much that none is taken.
class OneAxisPrices final : public CollectivePrices {
 public:
  double Seconds(const CollectiveCall& call, const Mesh& mesh) const override {
    return call.axes.size() == 1 ? elements_.Seconds(call, mesh) : 1e12;
  }

 private:
  const RingPrices elements_{0, 1.0 / 8};
};

// Other prices than those by which paths are chosen, which tell axes and operations apart.
class UnlikePrices final : public CollectivePrices {
 public:
  double Seconds(const CollectiveCall& call, const Mesh& mesh) const override {
    double seconds = 0.01 * (1 + static_cast<int>(call.operation));
    for (const int axis : call.axes) seconds += 0.1 * (1 + axis) * static_cast<double>(call.count);
    return seconds;
  }
};

// Runs the steps of a redistribution on ranks that hold `source`. Returns "" if they end up with
// the right values, otherwise a text that says what is wrong.
std::string Outcome(const Redistribution& path, const MeshLayout& to, const RankArrays& source,
                    absl::Span<const double> values, const Shape& shape, const Mesh& mesh) {
  RankArrays arrays = source;
  for (const RedistributionStep& step : path.steps) {
    if (step.from != arrays.layout && !HoldSameElements(step.from, arrays.layout, shape, mesh)) {
      return absl::StrCat("a step from ", step.from.ToString(mesh), " begins at ",
                          arrays.layout.ToString(mesh));
    }
    arrays = RunStep(step, arrays, shape, mesh);
  }
  if (!HoldSameElements(arrays.layout, to, shape, mesh)) {
    return absl::StrCat("ends at ", arrays.layout.ToString(mesh));
  }
  arrays.layout = to;
  return Difference(arrays, values, shape, mesh);
}

class RedistributionValuesTest : public ::testing::TestWithParam<Setting> {
 protected:
  // The price is in elements.
  const RingPrices prices_{0, 1.0 / 8};
};

TEST_P(RedistributionValuesTest, RanksEndUpWithTheRightValues) {
  const Mesh mesh = MeshOfSizes(GetParam().mesh);
  const CallPrices calls;
  int along_several = 0;
  for (const CollectivePrices* prices : std::vector<const CollectivePrices*>{&prices_, &calls}) {
    for (const Shape& shape : GetParam().shapes) {
      RedistributionFinder finder(mesh, prices);
      const std::vector<double> values = Values(shape);
      for (const MeshLayout& from : AllLayouts(mesh, GetParam().sources)) {
        const RankArrays source = Distribute(values, shape, from, mesh);
        ASSERT_EQ(Difference(source, values, shape, mesh), "");
        for (const MeshLayout& to : AllLayouts(mesh, GetParam().targets)) {
          const auto path = finder.Find(from, to, {DType::kF64, shape});
          ASSERT_EQ(path.ok(), Reachable(from, to, mesh)) << path.status();
          if (!path.ok()) continue;
          ASSERT_EQ(Outcome(**path, to, source, values, shape, mesh), "")
              << ShapeToString(shape) << " from " << from.ToString(mesh) << " to "
              << to.ToString(mesh) << ":\n"
              << (*path)->ToString(mesh);
          for (const RedistributionStep& step : (*path)->steps) {
            if (step.axes.size() > 1) ++along_several;
          }
        }
      }
    }
  }
  const int axes = static_cast<int>(absl::c_count_if(GetParam().mesh, [](int n) { return n > 1; }));
  EXPECT_EQ(along_several > 0, axes > 1);
}

TEST_P(RedistributionValuesTest, PricesAreThoseOfTheStepsAndNotAboveAxisByAxis) {
  const Mesh mesh = MeshOfSizes(GetParam().mesh);
  const OneAxisPrices one_axis_prices;
  const UnlikePrices unlike_prices;
  const std::vector<MeshLayout> sources = AllLayouts(mesh, GetParam().sources);
  const std::vector<MeshLayout> targets = AllLayouts(mesh, GetParam().targets);
  for (const Shape& shape : GetParam().shapes) {
    RedistributionFinder finder(mesh, &prices_), axis_by_axis(mesh, &one_axis_prices);
    RedistributionPrices table(mesh, {prices_, unlike_prices});
    const TensorType type = {DType::kF64, shape};
    const auto prices = table.Find(sources, targets, type);
    ASSERT_TRUE(prices.ok()) << prices.status();
    ASSERT_EQ(prices->size(), sources.size() * targets.size());
    for (size_t row = 0; row < sources.size(); ++row) {
      const MeshLayout& from = sources[row];
      // A row by itself, of a graph that is not complete.
      const auto alone =
          RedistributionPrices(mesh, {prices_, unlike_prices}).Find({from}, targets, type);
      ASSERT_TRUE(alone.ok()) << alone.status();
      for (size_t i = 0; i < targets.size(); ++i) {
        const double price = (*prices)[row * targets.size() + i];
        EXPECT_EQ(price, (*alone)[i]);
        const auto path = finder.Find(from, targets[i], type);
        ASSERT_EQ(path.ok(), std::isfinite(price));
        if (!path.ok()) continue;
        double seconds = 0;
        for (const RedistributionStep& step : (*path)->steps) {
          for (const CollectiveCall& call : CollectivesOf(step, type, mesh)) {
            seconds += prices_.Seconds(call, mesh);
          }
        }
        const std::string pair = absl::StrCat(ShapeToString(shape), " from ", from.ToString(mesh),
                                              " to ", targets[i].ToString(mesh));
        ASSERT_NEAR((*path)->seconds, seconds, 1e-9) << pair;
        ASSERT_NEAR(price, SecondsOf((*path)->steps, type, mesh, unlike_prices), 1e-9) << pair;
        const auto stepwise = axis_by_axis.Find(from, targets[i], type);
        ASSERT_TRUE(stepwise.ok()) << stepwise.status();
        ASSERT_LE(seconds, (*stepwise)->seconds + 1e-9) << pair;
        ASSERT_LT((*stepwise)->seconds, 1e12) << pair;
      }
    }
  }
}

TEST_P(RedistributionValuesTest, PricesAreAMetricAndCoverWhatMustBeReceived) {
  const Mesh mesh = MeshOfSizes(GetParam().mesh);
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

// Draws numbers below a bound, the same on every platform.
class Draw {
 public:
  explicit Draw(uint32_t seed) : engine_(seed) {}
  int operator()(int bound) { return static_cast<int>(engine_() % static_cast<uint32_t>(bound)); }

 private:
  std::mt19937 engine_;
};

// Changes the layouts along some axes, in a random order.
MeshLayout Changed(MeshLayout layout, int changes, Draw& draw) {
  const std::vector<AxisLayout> along = {AxisLayout::Broadcast(), kRows, kColumns, kSum,
                                         AxisLayout::Split(0, 2)};
  for (int i = 0; i < changes; ++i) {
    layout = layout.With(draw(layout.num_axes()), along[draw(static_cast<int>(along.size()))]);
  }
  return layout;
}

// Draws layouts of a tensor, with units, and in each nesting.
std::vector<MeshLayout> DrawLayouts(int count, const Mesh& mesh, int rank, Draw& draw) {
  std::vector<MeshLayout> layouts;
  while (static_cast<int>(layouts.size()) < count) {
    MeshLayout layout(mesh.num_axes());
    for (int i = 0; i < 2 * mesh.num_axes(); ++i) {
      const int kind = draw(4);
      const AxisLayout along = kind == 0   ? AxisLayout::Broadcast()
                               : kind == 1 ? kSum
                                           : AxisLayout::Split(draw(rank), 1 + draw(4) / 3);
      layout = layout.With(draw(mesh.num_axes()), along);
    }
    layouts.push_back(layout);
  }
  return layouts;
}

// On random meshes and tensors, with and without latency, a path through a third layout is never
// cheaper, and a price is never below that of what must be received.
TEST(RandomTriplesTest, PricesAreAMetric) {
  Draw draw(41);
  int triples = 0, cheaper_than_both = 0;
  for (int setting = 0; setting < 120; ++setting) {
    std::vector<int> sizes;
    const int axes = setting % 10 == 0 ? 4 : 1 + draw(3);
    for (int i = 0; i < axes; ++i) sizes.push_back(1 + draw(axes == 4 ? 2 : 5));
    const Mesh mesh = MeshOfSizes(sizes);
    Shape shape;
    for (int rank = axes == 4 ? 2 : 1 + draw(3); rank > 0; --rank) shape.push_back(1 + draw(12));
    const double seconds_per_step = setting % 2 == 0 ? 0 : 3;
    const RingPrices prices(seconds_per_step, 1.0 / 8);
    const std::vector<MeshLayout> layouts =
        DrawLayouts(12, mesh, static_cast<int>(shape.size()), draw);
    const auto found =
        RedistributionPrices(mesh, {prices, prices}).Find(layouts, layouts, {DType::kF64, shape});
    ASSERT_TRUE(found.ok()) << found.status();
    std::vector<std::vector<double>> price;
    for (size_t i = 0; i < layouts.size(); ++i) {
      const auto row = found->begin() + static_cast<std::ptrdiff_t>(i * layouts.size());
      price.emplace_back(row, row + static_cast<std::ptrdiff_t>(layouts.size()));
    }
    for (size_t a = 0; a < layouts.size(); ++a) {
      ASSERT_EQ(price[a][a], 0);
      for (size_t c = 0; c < layouts.size(); ++c) {
        const std::string pair =
            absl::StrCat(ShapeToString(shape), " on ", mesh.ToString(), ": ",
                         layouts[a].ToString(mesh), ", ", layouts[c].ToString(mesh));
        ASSERT_GE(price[a][c] + 1e-9, MustReceive(layouts[a], layouts[c], shape, mesh)) << pair;
        for (size_t b = 0; b < layouts.size(); ++b) {
          if (!MayBeOnTheWay(layouts[a], layouts[b], layouts[c])) continue;
          ASSERT_LE(price[a][c], price[a][b] + price[b][c] + 1e-9)
              << pair << " by " << layouts[b].ToString(mesh);
          ++triples;
          if (price[a][c] + 1e-9 < price[a][b] + price[b][c]) ++cheaper_than_both;
        }
      }
    }
  }
  EXPECT_GE(triples, 100'000);
  EXPECT_GT(cheaper_than_both, triples / 10);
}

TEST(ManyAxesTest, RandomPairsOnFiveAndSixAxes) {
  Draw draw(5);
  const RingPrices prices(0, 1.0 / 8);
  const UnlikePrices unlike_prices;
  int searched = 0, gathered = 0;
  for (const std::vector<int>& sizes :
       std::vector<std::vector<int>>{{2, 2, 2, 2, 2}, {2, 3, 2, 1, 2, 2}, {2, 2, 2, 2, 2, 2}}) {
    const Mesh mesh = MeshOfSizes(sizes);
    for (const Shape& shape : std::vector<Shape>{{32, 64}, {9, 14}}) {
      RedistributionFinder finder(mesh, &prices);
      RedistributionPrices table(mesh, {prices, unlike_prices});
      const TensorType type = {DType::kF64, shape};
      const std::vector<double> values = Values(shape);
      for (int i = 0; i < 80; ++i) {
        const MeshLayout from = Changed(MeshLayout(mesh.num_axes()), 6, draw);
        const MeshLayout to = Changed(from, i % 2 == 0 ? 2 : 9, draw);
        const auto path = finder.Find(from, to, type);
        ASSERT_TRUE(path.ok()) << path.status();
        const std::string pair =
            absl::StrCat(ShapeToString(shape), " from ", from.ToString(mesh), " to ",
                         to.ToString(mesh), ":\n", (*path)->ToString(mesh));
        const RankArrays source = Distribute(values, shape, from, mesh);
        ASSERT_EQ(Outcome(**path, to, source, values, shape, mesh), "") << pair;
        EXPECT_GE((*path)->seconds + 1e-9, MustReceive(from, to, shape, mesh)) << pair;
        EXPECT_EQ((*finder.Find(from, from, type))->seconds, 0) << pair;
        const auto found = table.Find({from}, {to, from}, type);
        ASSERT_TRUE(found.ok()) << found.status();
        EXPECT_NEAR((*found)[0], SecondsOf((*path)->steps, type, mesh, unlike_prices), 1e-9)
            << pair;
        EXPECT_EQ((*found)[1], 0) << pair;
        ++(MovingAxes(from, to, mesh).axes().size() > MovingAxes::kMost ? gathered : searched);
      }
    }
  }
  EXPECT_GT(searched, 100);
  EXPECT_GT(gathered, 50);
}

TEST(ManyAxesTest, SumsOverManyAxesAreScattered) {
  const Mesh mesh = MeshOfSizes({2, 2, 2, 2, 2});
  const RingPrices prices(0, 1);
  RedistributionFinder finder(mesh, &prices);
  const MeshLayout from(std::vector<AxisLayout>(5, kSum));
  const MeshLayout to({kRows, kRows, kColumns, AxisLayout::Broadcast(), kRows});
  const auto path = finder.Find(from, to, {DType::kF32, {8, 8}});
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ((*path)->ToString(mesh),
            "reduce-scatter along a0 and a1 and a2 and a4: a0: P, a1: P, a2: P, a3: P, a4: P => "
            "a0: S(0), a1: S(0), a2: S(1), a3: P, a4: S(0)\n"
            "all-reduce along a3: a0: S(0), a1: S(0), a2: S(1), a3: P, a4: S(0) => "
            "a0: S(0), a1: S(0), a2: S(1), a4: S(0)\n");
}

TEST(ManyAxesTest, NoMaximumIsMade) {
  const Mesh mesh = MeshOfSizes({2, 2, 2, 2, 2});
  const RingPrices prices(0, 1);
  RedistributionFinder finder(mesh, &prices);
  const MeshLayout from(std::vector<AxisLayout>(5, kRows)), to(std::vector<AxisLayout>(5, kMax));
  EXPECT_TRUE(absl::IsInvalidArgument(finder.Find(from, to, {DType::kF32, {8, 8}}).status()));
  EXPECT_TRUE(finder.Find(to, from, {DType::kF32, {8, 8}}).ok());
}

INSTANTIATE_TEST_SUITE_P(Settings, RedistributionValuesTest, ::testing::ValuesIn(Settings()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tessera
