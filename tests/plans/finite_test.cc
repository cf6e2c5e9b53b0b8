// Checks that an update is skipped on all ranks if only one of them holds a value that is not
// finite.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/fake/fake.h"
#include "core/compile/compile.h"
#include "core/graph/autograd.h"
#include "core/kernels/cpu/backend.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "core/plan/testing/completion.h"
#include "core/runtime/engine.h"
#include "core/runtime/mesh_collectives.h"
#include "core/runtime/world_memory.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr int64_t kRows = 7, kColumns = 4, kOthers = 5;
constexpr int kRanks = 3;

// loss = sum(w * x) + sum(v * y), whose gradients are x and y. The update tests them, not a norm.
std::vector<Graph> Graphs() {
  Graph graph("train");
  const Tensor w = graph.Parameter("w", {kRows, kColumns}, Initializer::Normal(0, 1));
  const Tensor v = graph.Parameter("v", {kOthers}, Initializer::Constant(1));
  const Tensor x = graph.Input("x", {DType::kF32, {kRows, kColumns}});
  const Tensor y = graph.Input("y", {DType::kF32, {kOthers}});
  const Tensor loss = Add(ReduceSum(Multiply(w, x), {0, 1}), ReduceSum(Multiply(v, y), {0}));
  const auto gradients = RecordGradients(graph, loss, {w, v});
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  graph.set_phase(Phase::kUpdate);
  const Tensor lr = graph.Input("lr", {DType::kF32, {}});
  const Tensor finite = AllFinite(*gradients);
  const Tensor one = Fill(graph, {DType::kF32, {}}, 1);
  graph.SetState("w", SgdUpdate(w, (*gradients)[0], {}, lr, one, finite, {}).parameter);
  graph.SetState("v", SgdUpdate(v, (*gradients)[1], {}, lr, one, finite, {}).parameter);
  graph.SetOutput("finite", Cast(finite, DType::kI32));
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  auto initialise = RecordInitialise(graph);
  EXPECT_TRUE(initialise.ok()) << initialise.status();
  return {*std::move(initialise), std::move(graph)};
}

// Reads all states that this rank holds.
absl::StatusOr<std::vector<double>> StatesOf(Engine& engine) {
  std::vector<double> all;
  for (const StateInfo& state : engine.states()) {
    std::vector<double> values(NumElements(state.type.shape));
    RETURN_IF_ERROR(engine.ReadStateValues(kTrain, state.path, absl::MakeSpan(values)));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// Expects that each rank tests its own gradients, and that ranks agree by one minimum.
absl::Status CheckProgram(const Program& program) {
  int minima = 0, gathers = 0;
  for (const Instruction& instruction : program.instructions) {
    if (!program.Communicates(instruction) || instruction.phase != Phase::kUpdate) continue;
    const CollectiveRequest& request = program.collectives[instruction.collective];
    minima += static_cast<int>(request.reduction == Reduction::kMin);
    gathers += static_cast<int>(request.operation == CollectiveOperation::kAllGather);
  }
  if (minima == 1 && gathers == 0) return absl::OkStatus();
  return absl::InternalError(program.ToString());
}

// Takes two steps: one with NaN or infinity in row `row` of x, which must change nothing, and one
// with finite gradients, which must.
absl::Status RunRank(comm::World& world, const Plan& plan, Backend& backend, int64_t row,
                     double invalid) {
  ASSIGN_OR_RETURN(CompiledRun compiled, CompileRun(Graphs(), plan, backend, kRanks));
  RETURN_IF_ERROR(CheckProgram(*compiled.FindProgram(kTrain)));
  const Mesh mesh = compiled.FindProgram(kTrain)->mesh;
  ASSIGN_OR_RETURN(const auto collectives, MeshCollectives::Create(mesh, &world.communicator()));
  EngineOptions options;
  options.rank = {world.rank(), collectives.get()};
  options.allocate = ArenasOf(&world, &backend);
  ASSIGN_OR_RETURN(auto engine, Engine::Create(std::move(compiled), &backend, options));
  RETURN_IF_ERROR(engine->SetScalarIfRead(kInitialise, "seed", 3));
  RETURN_IF_ERROR(engine->Run(kInitialise));
  ASSIGN_OR_RETURN(const std::vector<double> before, StatesOf(*engine));
  const double lr = 0.5;
  RETURN_IF_ERROR(engine->SetInput(kTrain, "lr", absl::MakeConstSpan(&lr, 1)));
  RETURN_IF_ERROR(engine->SetInput(kTrain, "y", std::vector<double>(kOthers, 2)));
  std::vector<double> x(kRows * kColumns, 1);
  for (const bool skipped : {true, false}) {
    x[row * kColumns + 1] = skipped ? invalid : 1;
    RETURN_IF_ERROR(engine->SetInput(kTrain, "x", x));
    RETURN_IF_ERROR(engine->Run(kTrain));
    double finite = -1;
    RETURN_IF_ERROR(engine->ReadOutput(kTrain, "finite", absl::MakeSpan(&finite, 1)));
    ASSIGN_OR_RETURN(const std::vector<double> after, StatesOf(*engine));
    const bool unchanged = !before.empty() && before == after;
    if (finite == (skipped ? 0 : 1) && unchanged == (skipped || before.empty())) continue;
    return absl::InternalError(absl::StrCat("rank ", world.rank(), ", row ", row, ": finite is ",
                                            finite, unchanged ? ", states" : ", no states",
                                            " are unchanged"));
  }
  engine.reset();
  return world.Leave();
}

void ExpectSkipped(const std::string& choices) {
  const Plan plan = ParsePlan(absl::StrCat("stages { mesh { name: 'data' } ", choices, " }"));
  for (const bool cpu : {false, true}) {
    for (const double invalid : {std::nan(""), static_cast<double>(INFINITY)}) {
      for (const int64_t row : {int64_t{0}, int64_t{3}, kRows - 1}) {
        const auto statuses = comm::RunFake({.ranks = kRanks, .seed = 5}, [&](comm::World& world) {
          const auto backend = cpu ? MakeCpuBackend(1) : MakeReferenceBackend();
          return RunRank(world, plan, *backend, row, invalid);
        });
        for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
      }
    }
  }
}

TEST(FiniteTest, AnInvalidShardSkipsTheUpdateOnAllRanks) {
  ExpectSkipped("store { path: 'w' layout: 'data: S(0)' }");
  ExpectSkipped(
      "store { path: 'w' layout: 'data: S(1)' } store { path: 'v' layout: 'data: S(0)' }");
}

TEST(FiniteTest, AnInvalidRangeOfAFlatGroupSkipsTheUpdateOnAllRanks) {
  ExpectSkipped("group { path: 'w|v' over: 'data' }");
}

}  // namespace
}  // namespace tessera
