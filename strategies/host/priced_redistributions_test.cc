// Checks that the redistributions that are priced are those that a Program executes.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/compile/compile.h"
#include "core/cost/cluster.h"
#include "core/cost/cluster_prices.h"
#include "core/graph/attributes_proto.h"
#include "core/graph/graph.h"
#include "core/kernels/cpu/backend.h"
#include "core/layout/layout_text.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/ops/ops.h"
#include "gtest/gtest.h"
#include "strategies/host/planning_context.h"

namespace tessera {
namespace {

constexpr int kRanks = 8;
const TensorType kWeight = {DType::kF32, {64, 4096}}, kOutput = {DType::kF32, {32, 4096}};

// Records y = x w.
std::vector<Graph> Graphs() {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {32, 64}}, /*batch_dim=*/0);
  const Tensor w = graph.Parameter("w", kWeight.shape, Initializer::Constant(1));
  graph.SetOutput("y", MatMul(x, w));
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  std::vector<Graph> graphs;
  graphs.push_back(std::move(graph));
  return graphs;
}

// Two hosts of four ranks with a slow network, for which other redistributions are cheapest than
// for a ring.
Cluster SlowNetwork() {
  Cluster cluster;
  cluster.set_f32_flops_per_second(1e12);
  cluster.set_memory_bytes_per_second(1e11);
  cluster.set_ranks_per_host(4);
  cluster.mutable_within_host()->set_bytes_per_second(1e10);
  cluster.mutable_between_hosts()->set_latency_seconds(1e-3);
  cluster.mutable_between_hosts()->set_bytes_per_second(1e6);
  return cluster;
}

// How w is stored, the signature of the product, how that needs x and w and computes y.
struct Change {
  std::string stored, signature, x, w, y;
};

std::vector<Change> Changes() {
  // Along one axis: x, w and y of each signature.
  const std::vector<std::vector<std::string>> signatures = {
      {"S(0)", "B", "S(0)"}, {"B", "S(1)", "S(1)"}, {"S(1)", "S(0)", "P"}};
  std::vector<Change> changes;
  for (const std::string stored_a : {"B", "S(0)", "S(1)"}) {
    for (const std::string stored_b : {"B", "S(0)", "S(1)"}) {
      for (const auto& a : signatures) {
        for (const auto& b : signatures) {
          const auto layout = [&](int i) { return absl::StrCat("a: ", a[i], ", b: ", b[i]); };
          changes.push_back({absl::StrCat("a: ", stored_a, ", b: ", stored_b),
                             absl::StrCat("a: ", a[0], ", ", a[1], " -> ", a[2], "; b: ", b[0],
                                          ", ", b[1], " -> ", b[2]),
                             layout(0), layout(1), layout(2)});
        }
      }
    }
  }
  return changes;
}

void SetMesh(google::protobuf::RepeatedPtrField<MeshAxis>* mesh) {
  for (const auto& [name, size] : {std::pair("a", 2), std::pair("b", 4)}) {
    MeshAxis& axis = *mesh->Add();
    axis.set_name(name);
    axis.set_size(size);
  }
}

Plan PlanOf(const Change& change) {
  Plan plan;
  Stage& stage = *plan.add_stages();
  SetMesh(stage.mutable_mesh());
  for (const auto& [path, layout] : {std::pair("w", change.stored), std::pair("x", change.x)}) {
    StoreChoice& store = *stage.add_store();
    store.set_path(path);
    store.set_layout(layout);
  }
  ComputeChoice& compute = *stage.add_compute();
  compute.set_path("matmul");
  compute.set_signature(change.signature);
  return plan;
}

// Returns the seconds of all collectives of a Program.
double SecondsOf(const Program& program, const ClusterPrices& prices) {
  double seconds = 0;
  for (const Instruction& instruction : program.instructions) {
    if (!program.Communicates(instruction)) continue;
    const CollectiveRequest& request = program.collectives[instruction.collective];
    CollectiveCall call;
    call.operation = request.operation;
    call.dtype = request.dtype;
    call.reduction = request.reduction;
    call.count = request.elements;
    int ranks = 1;
    for (const std::string& name : request.mesh_axes) {
      call.axes.push_back(*program.mesh.FindAxis(name));
      ranks *= program.mesh.axis(call.axes.back()).size;
    }
    call.part = call.count / ranks;
    seconds += prices.Seconds(call, program.mesh);
  }
  return seconds;
}

double Price(const PlanningContext& context, const TensorType& type, const std::string& from,
             const std::string& to) {
  strategy::PriceRedistributions request;
  SetMesh(request.mutable_mesh());
  strategy::PriceRedistributions::Change& change = *request.add_changes();
  *change.mutable_type() = ToProto(type);
  change.add_from(from);
  change.add_to(to);
  return context.Price(request)->seconds(0);
}

TEST(PricedRedistributionsTest, AreThoseOfTheProgram) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  const Cluster cluster = SlowNetwork();
  const PlanningContext context(
      Graphs(), PlanningFor{backend.get(), kRanks, cluster, SiteOnCluster(cluster, kRanks)});
  const Mesh mesh = *Mesh::Create({{"a", 2}, {"b", 4}});
  const ClusterPrices prices(cluster, mesh);
  RedistributionFinder cheapest(mesh, &prices);
  int compared = 0, not_cheapest = 0;
  for (const Change& change : Changes()) {
    const absl::StatusOr<CompiledRun> run = CompileRun(Graphs(), PlanOf(change), *backend, kRanks);
    if (!run.ok()) continue;  // the product cannot be computed so
    // x is stored as it is needed; y is an output, and brought to B.
    const double seconds =
        Price(context, kWeight, change.stored, change.w) + Price(context, kOutput, change.y, "B");
    EXPECT_DOUBLE_EQ(SecondsOf(*run->FindProgram("train"), prices), seconds)
        << change.stored << ", " << change.signature;
    const Redistribution* const best =
        *cheapest.Find(*ParseMeshLayout(change.y, mesh), *ParseMeshLayout("B", mesh), kOutput);
    const double priced = Price(context, kOutput, change.y, "B");
    EXPECT_LE(best->seconds, priced * (1 + 1e-12));
    ++compared;
    if (best->seconds < priced * 0.999) ++not_cheapest;
  }
  EXPECT_GT(compared, 40);
  // Otherwise nothing would show that not the cheapest ones of this cluster are priced.
  EXPECT_GT(not_cheapest, 0);
}

}  // namespace
}  // namespace tessera
