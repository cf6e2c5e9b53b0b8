// Checks that in f16 all ranks skip a step and halve the loss scale if only one of them overflows.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/fake/fake.h"
#include "core/compile/compile.h"
#include "core/kernels/cpu/backend.h"
#include "core/ops/ops.h"
#include "core/plan/rewrite/precision.h"
#include "core/plan/testing/completion.h"
#include "core/runtime/engine.h"
#include "core/runtime/mesh_collectives.h"
#include "core/runtime/world_memory.h"
#include "core/status/status_macros.h"
#include "core/train/optimizer.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr int64_t kRows = 4, kColumns = 3;
constexpr int kRanks = 2;
constexpr double kLr = 0.5;

// loss = sum((w * x)^2) / 2 with w = 1, whose gradient is x^2. Ranks have rows of w.
absl::StatusOr<std::vector<Graph>> Graphs() {
  Graph graph("train");
  const Tensor w = graph.Parameter("w", {kRows, kColumns}, Initializer::Constant(1));
  const Tensor x = graph.Input("x", {DType::kF32, {kRows, kColumns}});
  const Tensor loss = Scale(SumSquares(Multiply(w, x)), 0.5);
  OptimizerConfig sgd;
  sgd.set_kind("sgd");
  RETURN_IF_ERROR(RecordUpdate(graph, loss, sgd, DecaysByDefault, LossScaling{.first = 4096}));
  ASSIGN_OR_RETURN(Graph initialise, RecordInitialise(graph));
  return std::vector<Graph>{std::move(initialise), std::move(graph)};
}

absl::StatusOr<double> Scalar(Engine& engine, absl::string_view output) {
  double value = -1;
  RETURN_IF_ERROR(engine.ReadOutput(kTrain, output, absl::MakeSpan(&value, 1)));
  return value;
}

// Takes a step in which element 1 of `row` alone overflows when it is scaled, and one in which it
// does not.
absl::Status RunRank(comm::World& world, const Plan& plan, int64_t row) {
  const auto backend = MakeCpuBackend(1);
  ASSIGN_OR_RETURN(std::vector<Graph> graphs, Graphs());
  ASSIGN_OR_RETURN(CompiledRun compiled, CompileRun(std::move(graphs), plan, *backend, kRanks));
  const Mesh mesh = compiled.FindProgram(kTrain)->mesh;
  ASSIGN_OR_RETURN(const auto collectives, MeshCollectives::Create(mesh, &world.communicator()));
  EngineOptions options;
  options.rank = {world.rank(), collectives.get()};
  options.allocate = ArenasOf(&world, backend.get());
  ASSIGN_OR_RETURN(auto engine, Engine::Create(std::move(compiled), backend.get(), options));
  RETURN_IF_ERROR(engine->Run(kInitialise));
  std::vector<double> x(kRows * kColumns, 0.25);
  std::vector<double> w(kRows / kRanks * kColumns);
  for (const bool overflows : {true, false}) {
    x[row * kColumns + 1] = overflows ? 5 : 0.25;  // 4096 * 25 is above 65504
    RETURN_IF_ERROR(engine->SetInput(kTrain, "lr", absl::MakeConstSpan(&kLr, 1)));
    RETURN_IF_ERROR(engine->SetInput(kTrain, "x", x));
    RETURN_IF_ERROR(engine->Run(kTrain));
    ASSIGN_OR_RETURN(const double finite, Scalar(*engine, "finite"));
    ASSIGN_OR_RETURN(const double scale, Scalar(*engine, "loss_scale"));
    RETURN_IF_ERROR(engine->ReadStateValues(kTrain, "w", absl::MakeSpan(w)));
    const double wanted = overflows ? 1 : 1 - kLr * 0.0625;
    for (const double element : w) {
      if (finite == (overflows ? 0 : 1) && scale == 2048 && element == wanted) continue;
      return absl::InternalError(absl::StrCat("rank ", world.rank(), ", row ", row, ": finite is ",
                                              finite, ", the scale ", scale, ", w ", element));
    }
  }
  engine.reset();
  return world.Leave();
}

TEST(LossScaleTest, AnOverflowOnOneRankSkipsTheStepOnAll) {
  const Plan plan = ParsePlan(R"(stages {
      mesh { name: 'data' }
      precision { parameters: F16 reduction: F16 }
      store { path: 'w' layout: 'data: S(0)' } })");
  for (const int64_t row : {int64_t{0}, kRows - 1}) {
    const auto statuses = comm::RunFake({.ranks = kRanks, .seed = 5}, [&](comm::World& world) {
      return RunRank(world, plan, row);
    });
    for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  }
}

}  // namespace
}  // namespace tessera
