// Lowers redistributions between all pairs of layouts, also along several axes at once, and runs
// them on ranks. Memory holds NaN before a step, so that reading padding gives a wrong value.
#include <cctype>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/kernels/reference/backend.h"
#include "core/layout/redistribution/stated_path.h"
#include "core/layout/testing/random_path.h"
#include "core/layout/testing/rank_arrays.h"
#include "core/program/testing/redistribution_program.h"
#include "core/runtime/testing/ranks.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

const AxisLayout kRows = AxisLayout::Split(0), kColumns = AxisLayout::Split(1);
const AxisLayout kSum = AxisLayout::Partial();
const AxisLayout kMax = AxisLayout::Partial(AxisLayout::Reduction::kMax);
const AxisLayout kLse = AxisLayout::Partial(AxisLayout::Reduction::kLogSumExp);

struct Setting {
  std::vector<int> mesh;
  std::vector<AxisLayout> along;  // in addition to B
  std::vector<Shape> shapes;
};

std::vector<Setting> Settings() {
  const std::vector<AxisLayout> plain = {kRows, kColumns, kSum};
  const std::vector<AxisLayout> cubes = {kRows, kColumns, AxisLayout::Split(2), kSum};
  const std::vector<AxisLayout> units = {kRows, kColumns, AxisLayout::Split(0, 2),
                                         AxisLayout::Split(1, 3)};
  return {
      {{3}, plain, {{5, 7}, {6, 9}}},
      {{2, 2}, plain, {{5, 7}, {8, 12}, {1, 9}}},
      {{2, 3}, plain, {{5, 7}, {12, 18}}},
      {{4, 2}, plain, {{5, 7}, {8, 16}}},
      {{2, 2, 2}, plain, {{5, 7}}},
      {{2, 2}, cubes, {{3, 5, 4}, {4, 6, 2}}},
      {{2, 3}, cubes, {{3, 5, 4}}},
      {{4, 2}, cubes, {{3, 5, 4}}},
      {{2, 2}, units, {{5, 7}, {9, 2}}},
      {{2, 3}, units, {{5, 7}}},
      {{2, 2}, {kRows, kColumns, kMax}, {{5, 7}}},
      {{2, 3}, {kRows, kColumns, kMax}, {{5, 7}}},
      {{2, 2}, {kRows, kColumns, kLse}, {{5, 7}}},
      {{2, 3}, {kRows, kColumns, kLse}, {{5, 7}}},
  };
}

std::string NameOf(const Setting& setting) {
  std::string name = absl::StrCat("On", absl::StrJoin(setting.mesh, "x"));
  for (const AxisLayout& layout : setting.along) {
    for (const char c : layout.ToString()) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0) name.push_back(c);
    }
  }
  return name;
}

class RedistributionsTest : public ::testing::TestWithParam<Setting> {};

// Runs a Program on all ranks. Returns the arrays of each output, by rank.
std::vector<std::vector<LocalArray>> RunOnRanks(const Program& program, const RankArrays& x) {
  const size_t outputs = program.outputs.size();
  std::vector<std::vector<LocalArray>> results(outputs, std::vector<LocalArray>(x.ranks.size()));
  ExpectOk(comm::RunFake({.ranks = static_cast<int>(x.ranks.size()), .seed = 3},
                         [&](comm::World& rank) -> absl::Status {
                           ASSIGN_OR_RETURN(std::vector<std::vector<double>> values,
                                            RunOnce(rank, program, x.ranks[rank.rank()].values));
                           for (size_t i = 0; i < outputs; ++i) {
                             results[i][rank.rank()] = {
                                 program.value(program.outputs[i].value).type.shape,
                                 std::move(values[i])};
                           }
                           return rank.Leave();
                         }));
  return results;
}

TEST_P(RedistributionsTest, RanksHoldTheRightValues) {
  const Mesh mesh = MeshOfSizes(GetParam().mesh);
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const std::vector<MeshLayout> layouts = AllLayouts(mesh, GetParam().along);
  const CallPrices calls;
  const RingPrices bytes(0, 1);
  int compared = 0, along_several = 0;
  for (const CollectivePrices* prices : {static_cast<const CollectivePrices*>(&calls),
                                         static_cast<const CollectivePrices*>(&bytes)}) {
    for (const Shape& shape : GetParam().shapes) {
      RedistributionFinder finder(mesh, prices);
      const TensorType type = {DType::kF64, shape};
      std::vector<double> values;
      for (int64_t i = 0; i < NumElements(shape); ++i) {
        values.push_back(static_cast<double>(i % 97));
      }
      for (const MeshLayout& from : layouts) {
        std::vector<MeshLayout> to;
        for (const MeshLayout& layout : layouts) {
          if (finder.Find(from, layout, type).ok()) to.push_back(layout);
        }
        const auto program = RedistributionProgram(type, from, to, finder, *backend);
        ASSERT_TRUE(program.ok()) << program.status() << " from " << from.ToString(mesh);
        for (const CollectiveRequest& request : program->collectives) {
          if (request.mesh_axes.size() > 1) ++along_several;
        }
        const auto results = RunOnRanks(*program, Distribute(values, shape, from, mesh));
        for (size_t i = 0; i < to.size(); ++i) {
          ASSERT_EQ(Difference({to[i], results[i]}, values, shape, mesh), "")
              << ShapeToString(shape) << " from " << from.ToString(mesh) << " to "
              << to[i].ToString(mesh) << ":\n"
              << (*finder.Find(from, to[i], type))->ToString(mesh);
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, static_cast<int>(layouts.size()));
  EXPECT_EQ(along_several > 0, mesh.num_axes() > 1);
}

// Steps that a Plan states need not be ones that a search would take.
TEST_P(RedistributionsTest, RanksHoldTheRightValuesAfterStatedSteps) {
  const Mesh mesh = MeshOfSizes(GetParam().mesh);
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const std::vector<MeshLayout> layouts = AllLayouts(mesh, GetParam().along);
  const RingPrices bytes(0, 1);
  std::mt19937 engine(9);
  int compared = 0;
  for (const Shape& shape : GetParam().shapes) {
    const TensorType type = {DType::kF64, shape};
    std::vector<double> values;
    for (int64_t i = 0; i < NumElements(shape); ++i) values.push_back(static_cast<double>(i % 97));
    for (int draw = 0; draw < 12; ++draw) {
      const MeshLayout& from = layouts[engine() % layouts.size()];
      RedistributionFinder finder(mesh, &bytes);
      std::vector<MeshLayout> to;
      std::string text;
      for (int i = 0; i < 8; ++i) {
        std::vector<RedistributionStep> steps = DrawPath(from, 4, type, mesh, engine);
        if (steps.empty()) continue;
        const MeshLayout end = steps.back().to;
        if (!finder.State(from, end, type, std::move(steps)).ok()) continue;  // two to one layout
        to.push_back(end);
        absl::StrAppend(&text, (*finder.Find(from, end, type))->ToString(mesh), "\n");
      }
      const auto program = RedistributionProgram(type, from, to, finder, *backend);
      ASSERT_TRUE(program.ok()) << program.status() << " from " << from.ToString(mesh) << text;
      const auto results = RunOnRanks(*program, Distribute(values, shape, from, mesh));
      for (size_t i = 0; i < to.size(); ++i) {
        ASSERT_EQ(Difference({to[i], results[i]}, values, shape, mesh), "")
            << ShapeToString(shape) << " from " << from.ToString(mesh) << " to "
            << to[i].ToString(mesh) << ":\n"
            << (*finder.Find(from, to[i], type))->ToString(mesh);
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 12);
}

// Returns the sum of what ranks of a mesh of two axes hold, completed by these steps.
std::vector<double> SumBySteps(const Mesh& mesh, const std::vector<const char*>& steps) {
  const TensorType type = {DType::kF64, {50}};
  const MeshLayout partial({kSum, kSum}), complete(2);
  const RingPrices prices(0, 1);
  RedistributionFinder finder(mesh, &prices);
  std::vector<RedistributionStep> path;
  for (const char* step : steps) path.push_back(*ParseStep(step, mesh));
  EXPECT_TRUE(finder.State(partial, complete, type, std::move(path)).ok());
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const auto program = RedistributionProgram(type, partial, {complete}, finder, *backend);
  EXPECT_TRUE(program.ok()) << program.status();
  std::mt19937 engine(5);
  RankArrays x = {partial, std::vector<LocalArray>(mesh.size(), {{50}, std::vector<double>(50)})};
  for (LocalArray& rank : x.ranks) {
    for (double& value : rank.values) value = std::normal_distribution<double>()(engine);
  }
  return RunOnRanks(*program, x)[0][0].values;
}

// In the mesh's order, the ranks along an inner axis of 2, 4, ... ranks are added up first.
TEST(OrderOfSumsTest, OneStepAddsAsTwoDoIfTheInnerAxisHasAPowerOfTwo) {
  for (const std::vector<int>& sizes :
       std::vector<std::vector<int>>{{2, 2}, {3, 2}, {2, 4}, {5, 4}, {2, 3}, {3, 5}, {4, 6}}) {
    SCOPED_TRACE(absl::StrJoin(sizes, " x "));
    const Mesh mesh = MeshOfSizes(sizes);
    const auto merged = SumBySteps(mesh, {"all-reduce along a0 and a1: a0: P, a1: P => B"});
    const auto by_axis = SumBySteps(
        mesh, {"all-reduce along a1: a0: P, a1: P => a0: P", "all-reduce along a0: a0: P => B"});
    EXPECT_EQ(merged == by_axis, sizes[1] == 2 || sizes[1] == 4);
    for (size_t i = 0; i < merged.size(); ++i) EXPECT_NEAR(merged[i], by_axis[i], 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, RedistributionsTest, ::testing::ValuesIn(Settings()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tessera
