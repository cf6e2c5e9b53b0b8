// Prints how long it takes to answer a strategy that asks for the prices of redistributions between
// all pairs of layouts on a mesh, in one request.
//
//     bazelw run //strategies/host:redistribution_benchmark
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/cost/cluster.h"
#include "core/graph/attributes_proto.h"
#include "core/graph/graph.h"
#include "core/kernels/cpu/backend.h"
#include "core/layout/mesh_layout.h"
#include "core/status/check.h"
#include "strategies/host/planning_context.h"

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

// Two hosts with a network between them.
Cluster TwoHosts(int ranks) {
  Cluster cluster;
  cluster.set_f32_flops_per_second(1e14);
  cluster.set_memory_bytes_per_second(1e12);
  cluster.set_ranks_per_host(ranks / 2);
  cluster.mutable_within_host()->set_latency_seconds(1e-6);
  cluster.mutable_within_host()->set_bytes_per_second(3e11);
  cluster.mutable_between_hosts()->set_latency_seconds(1e-5);
  cluster.mutable_between_hosts()->set_bytes_per_second(2.5e10);
  return cluster;
}

void Measure(const std::vector<int>& sizes, const std::vector<Shape>& shapes) {
  std::vector<Mesh::Axis> axes;
  for (size_t i = 0; i < sizes.size(); ++i) axes.push_back({absl::StrCat("a", i), sizes[i]});
  strategy::PriceRedistributions request;
  int ranks = 1;
  for (const Mesh::Axis& axis : axes) {
    MeshAxis& of_request = *request.add_mesh();
    of_request.set_name(axis.name);
    of_request.set_size(axis.size);
    ranks *= axis.size;
  }
  const Mesh mesh = *Mesh::Create(std::move(axes));
  for (const Shape& shape : shapes) {
    strategy::PriceRedistributions::Change& change = *request.add_changes();
    *change.mutable_type() = ToProto(TensorType{DType::kF32, shape});
    for (const MeshLayout& layout : AllLayouts(mesh, static_cast<int>(shape.size()))) {
      change.add_from(layout.ToString(mesh));
      change.add_to(layout.ToString(mesh));
    }
  }
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  const Cluster cluster = TwoHosts(ranks);
  const PlanningContext context(std::vector<Graph>(), PlanningFor{backend.get(), ranks, cluster,
                                                                  SiteOnCluster(cluster, ranks)});
  const auto start = std::chrono::steady_clock::now();
  const auto prices = context.Price(request);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  TESSERA_CHECK(prices.ok()) << prices.status();
  std::printf("mesh %-12s %zu shapes %9d pairs  %6.2f s  %6.3f us a pair\n",
              absl::StrJoin(sizes, "x").c_str(), shapes.size(), prices->seconds_size(), seconds,
              seconds / prices->seconds_size() * 1e6);
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
