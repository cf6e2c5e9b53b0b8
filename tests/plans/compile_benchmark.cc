// Measures how the time to compile a run for ranks grows with its instructions: GPT-2 124M under
// Plans of docs/plans on 4 ranks, with micro-batches such that a step has 10^5 and 10^6
// instructions. Measures all of CompileRun: completing the Plan, rewriting, layouts, lowering,
// passes, memory planning, verifying. Seconds are processor time, so that other load does not
// count. The last column is the time with a Plan that names a kernel for each request that several
// can run, relative to one that names none. The larger run takes 4 GB and a minute.
//
//   ./bazelw run //tests/plans:compile_benchmark
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/compile/compile.h"
#include "core/kernels/cpu/backend.h"
#include "core/status/check.h"
#include "core/train/programs.h"
#include "google/protobuf/text_format.h"
#include "strategies/conformance/drawn_kernels.h"
#include "tests/plans/recorded_gpt.h"

namespace tessera {
namespace {

constexpr int kRanks = 4;
constexpr int kFew = 220, kMany = 2200;  // micro-batches

Plan ReadPlan(const std::string& name) {
  const std::string path = "docs/plans/" + name + ".textproto";
  std::ifstream file(path);
  TESSERA_CHECK(file.good()) << "no file " << path;
  std::stringstream text;
  text << file.rdbuf();
  Plan plan;
  TESSERA_CHECK(google::protobuf::TextFormat::ParseFromString(text.str(), &plan)) << path;
  return plan;
}

// A Plan with micro-batches, and the Graphs of the run that it plans.
struct Planned {
  Plan plan;
  std::vector<Graph> graphs;
};

Planned PlanFor(const std::string& name, int micro_batches) {
  Planned planned = {ReadPlan(name),
                     RecordedGpt(/*layers=*/12, /*heads=*/12, /*channels=*/768,
                                 /*vocabulary=*/50257, /*context=*/64, kRanks * micro_batches)};
  PlanPart& part = *planned.plan.mutable_stages(0)->add_parts();
  part.set_graph(kTrain);
  part.set_micro_batches(micro_batches);
  return planned;
}

struct Measured {
  size_t instructions = 0;
  double seconds = 0;
  KernelChoices kernels;  // one that could be chosen for each request
};

Measured Compile(const Planned& planned) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  const std::clock_t begin = std::clock();
  const auto run = CompileRun(planned.graphs, planned.plan, *backend, kRanks);
  const std::clock_t end = std::clock();
  TESSERA_CHECK(run.ok()) << run.status();
  return {run->FindProgram(kTrain)->instructions.size(),
          static_cast<double>(end - begin) / CLOCKS_PER_SEC,
          DrawKernels(run->programs, *backend, /*seed=*/1)};
}

// Returns the time with kernels in the Plan relative to that without; the shortest of a few each.
double TimeOfChoices(Planned planned, const KernelChoices& kernels) {
  constexpr int kRounds = 5;
  double without = 1e9, with = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    planned.plan.clear_kernels();
    without = std::min(without, Compile(planned).seconds);
    *planned.plan.mutable_kernels() = kernels;
    with = std::min(with, Compile(planned).seconds);
  }
  return with / without;
}

void Run() {
  std::printf("%-22s %13s %9s %13s %9s %7s %9s\n", "Plan", "instructions", "seconds",
              "instructions", "seconds", "ratio", "kernels");
  for (const char* plan : {"data_parallel", "fully_sharded", "data_tensor_parallel"}) {
    const Planned smaller = PlanFor(plan, kFew);
    const Measured few = Compile(smaller), many = Compile(PlanFor(plan, kMany));
    const double seconds = many.seconds / few.seconds;
    const double instructions =
        static_cast<double>(many.instructions) / static_cast<double>(few.instructions);
    std::printf("%-22s %13zu %9.2f %13zu %9.2f %7.2f %9.2f\n", plan, few.instructions, few.seconds,
                many.instructions, many.seconds, 10 * seconds / instructions,
                TimeOfChoices(smaller, few.kernels));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tessera

int main() { tessera::Run(); }
