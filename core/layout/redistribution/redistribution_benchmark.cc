// Prints how long it takes to find the prices of redistributions between all pairs of layouts on a
// mesh.
//
//     bazelw run //core/layout/redistribution:redistribution_benchmark
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/layout/redistribution/choice_prices.h"
#include "core/layout/redistribution/redistribution_prices.h"
#include "core/status/check.h"

namespace tessera {
namespace {

// Returns all layouts in which each axis is B, a split or a sum, in all nesting orders.
std::vector<MeshLayout> AllLayouts(const Mesh& mesh, int dims) {
  std::vector<AxisLayout> along = {AxisLayout::Partial()};
  for (int dim = 0; dim < dims; ++dim) along.push_back(AxisLayout::Split(dim));
  absl::flat_hash_set<MeshLayout> known = {MeshLayout(mesh.num_axes())};
  std::vector<MeshLayout> layouts(known.begin(), known.end());
  for (size_t i = 0; i < layouts.size(); ++i) {
    for (int axis = 0; axis < mesh.num_axes(); ++axis) {
      if (!layouts[i].axis(axis).broadcast()) continue;
      for (const AxisLayout& next : along) {
        const MeshLayout more = MeshLayout(layouts[i]).With(axis, next);
        if (known.insert(more).second) layouts.push_back(more);
      }
    }
  }
  return layouts;
}

void Measure(const std::vector<int>& sizes, const std::vector<Shape>& shapes) {
  std::vector<Mesh::Axis> axes;
  for (size_t i = 0; i < sizes.size(); ++i) axes.push_back({absl::StrCat("a", i), sizes[i]});
  const Mesh mesh = *Mesh::Create(std::move(axes));
  const auto start = std::chrono::steady_clock::now();
  const RingPrices cluster(/*seconds_per_step=*/1e-5, /*seconds_per_byte=*/1e-11);
  int64_t pairs = 0, reachable = 0;
  for (const Shape& shape : shapes) {
    RedistributionPrices finder(mesh, {ChoicePrices(), cluster});
    const std::vector<MeshLayout> layouts = AllLayouts(mesh, static_cast<int>(shape.size()));
    const auto prices = finder.Find(layouts, layouts, {DType::kF32, shape});
    TESSERA_CHECK(prices.ok()) << prices.status();
    for (const double price : *prices) reachable += std::isfinite(price) ? 1 : 0;
    pairs += static_cast<int64_t>(prices->size());
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("mesh %-12s %zu shapes %9lld pairs %9lld reachable  %6.2f s  %6.3f us a pair\n",
              absl::StrJoin(sizes, "x").c_str(), shapes.size(), static_cast<long long>(pairs),
              static_cast<long long>(reachable), seconds,
              seconds / static_cast<double>(pairs) * 1e6);
}

}  // namespace
}  // namespace tessera

int main() {
  // Those of a GPT's matrices, activations and vectors; the last ones do not divide.
  const std::vector<tessera::Shape> shapes = {
      {768},       {3072},      {2304, 768},  {768, 768},     {3072, 768},
      {768, 3072}, {8192, 768}, {50304, 768}, {8192, 3072},   {8192, 50304},
      {1024, 768}, {12, 64},    {50257, 768}, {8, 1024, 768}, {5, 7, 3}};
  tessera::Measure({2, 2}, shapes);
  tessera::Measure({4, 2, 2}, shapes);
  tessera::Measure({4, 2, 2, 2}, shapes);
  return 0;
}
