#include "core/cost/kernel_times/measure_kernels.h"

#include <chrono>
#include <cmath>

#include "absl/strings/str_replace.h"
#include "core/compile/compile.h"
#include "core/cost/kernel_times/testing/planted_kernels.h"
#include "core/kernels/cpu/backend.h"
#include "core/ops/ops.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using std::chrono::microseconds;

// Two products of one shape, and one of another.
Graph Products() {
  Graph graph("step");
  Tensor x = graph.Input("x", {DType::kF32, {24, 16}});
  for (const char* name : {"a", "b"}) {
    const Tensor w = graph.Parameter(name, {16, 16}, Initializer::Constant(0.5));
    x = MatMul(x, w);
  }
  graph.SetOutput("y", MatMul(x, graph.Parameter("c", {16, 40}, Initializer::Constant(0.5))));
  return graph;
}

CompiledRun Compile(const KernelCatalogue& catalogue, const Plan& plan = Plan()) {
  absl::StatusOr<CompiledRun> run = CompileRun({Products()}, plan, catalogue);
  EXPECT_TRUE(run.ok()) << run.status();
  return *std::move(run);
}

KernelTimes Measured(const CompiledRun& run, Backend& backend) {
  const std::vector<OpenChoice> choices = OpenChoicesOf(run.programs, backend, KernelTimes());
  int reports = 0;
  const auto measured = MeasureKernels(choices, run.arenas, backend,
                                       {.progress = [&reports](const MeasuringProgress& progress) {
                                         EXPECT_EQ(progress.done, ++reports);
                                       }});
  EXPECT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(reports, static_cast<int>(choices.size()));
  return measured.ok() ? measured->times : KernelTimes();
}

TEST(MeasureKernelsTest, TheFastestAccurateKernelIsChosen) {
  PlantedBackend backend("matmul", {{.name = "rule", .wait = microseconds(20000)},
                                    {.name = "slow", .wait = microseconds(90000)},
                                    {.name = "fast", .wait = microseconds(200)},
                                    {.name = "wrong", .error = 1}});
  const CompiledRun run = Compile(backend);
  const KernelTimes times = Measured(run, backend);
  ASSERT_EQ(times.requests().size(), 2) << "each request once";
  for (const auto& [key, candidates] : times.requests()) {
    ASSERT_EQ(candidates.size(), 4);
    EXPECT_EQ(BestOf(candidates).kernel, "fast") << key;
    EXPECT_TRUE(std::isinf(candidates[3].seconds)) << "it is refused";
    EXPECT_GE(candidates[1].seconds, 9e-2);
  }
  EXPECT_TRUE(OpenChoicesOf(run.programs, backend, times).empty());

  Plan plan;
  FillInKernels(ChoicesBy(times, backend), plan);
  const CompiledRun chosen = Compile(backend, plan);
  EXPECT_TRUE(chosen.notes.empty());
  for (const PlannedKernel& kernel : chosen.programs[0].kernels) {
    if (kernel.request.op == "matmul") {
      EXPECT_EQ(kernel.kernel->name(), "fast");
    }
  }
  EXPECT_EQ(absl::StrReplaceAll(chosen.programs[0].ToString(), {{"kernel=fast", "kernel=rule"}}),
            run.programs[0].ToString())
      << "a choice changes nothing else";
}

TEST(MeasureKernelsTest, ARequestWithNewKernelsIsMeasuredAgain) {
  PlantedBackend before("matmul", {{.name = "a"}, {.name = "b"}});
  const CompiledRun run = Compile(before);
  const KernelTimes times = Measured(run, before);
  PlantedBackend after("matmul", {{.name = "a"}, {.name = "b"}, {.name = "c"}});
  const CompiledRun again = Compile(after);
  EXPECT_EQ(OpenChoicesOf(again.programs, after, times).size(), 2);
}

TEST(MeasureKernelsTest, AWorkspaceIsThatOfTheChosenKernel) {
  PlantedBackend backend("matmul", {{.name = "rule", .wait = microseconds(30000)},
                                    {.name = "large", .workspace_bytes = 1 << 20}});
  const CompiledRun run = Compile(backend);
  Plan plan;
  FillInKernels(ChoicesBy(Measured(run, backend), backend), plan);
  const CompiledRun chosen = Compile(backend, plan);
  EXPECT_GE(chosen.arena_bytes(), run.arena_bytes() + (1 << 20));
}

TEST(MeasureKernelsTest, KernelsOfTheCpuHaveTimes) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(2);
  const CompiledRun run = Compile(*backend);
  const KernelTimes times = Measured(run, *backend);
  for (const auto& [key, candidates] : times.requests()) {
    for (const KernelSeconds& each : candidates) {
      EXPECT_TRUE(each.seconds > 0 && each.seconds < 10) << key << ": " << each.kernel;
    }
  }
}

}  // namespace
}  // namespace tessera
