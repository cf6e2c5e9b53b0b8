// Measures how the time to compile a run for ranks grows with its instructions: GPT-2 124M under
// Plans of docs/plans on 4 ranks, with micro-batches such that a step has 10^5 and 10^6
// instructions. Measures all of CompileRun: completing the Plan, rewriting, layouts, lowering,
// passes, memory planning, verifying. Seconds are processor time, so that other load does not
// count. The larger one takes 4 GB and a minute.
//
//   ./bazelw run //tests/plans:compile_benchmark
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
#include "models/gpt/gpt.h"

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

std::vector<Graph> Record(int micro_batches) {
  GptConfig model;
  model.set_layers(12);
  model.set_heads(12);
  model.set_channels(768);
  model.set_vocabulary(50257);
  model.set_context(64);
  RunConfig config;
  config.set_batch(kRanks * micro_batches);
  config.set_sequence(64);
  config.mutable_optimizer()->set_kind("adamw");
  config.mutable_optimizer()->set_lr(1e-4);
  config.mutable_optimizer()->set_eps(1e-8);
  const auto created = CreateGpt(model);
  TESSERA_CHECK(created.ok()) << created.status();
  auto graphs = RecordRun(**created, config, RunGraphs::kAll);
  TESSERA_CHECK(graphs.ok()) << graphs.status();
  return *std::move(graphs);
}

struct Measured {
  size_t instructions = 0;
  double seconds = 0;
};

Measured Compile(const std::string& name, int micro_batches) {
  Plan plan = ReadPlan(name);
  PlanPart& part = *plan.mutable_stages(0)->add_parts();
  part.set_graph(kTrain);
  part.set_micro_batches(micro_batches);
  std::vector<Graph> graphs = Record(micro_batches);
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  const std::clock_t begin = std::clock();
  const auto run = CompileRun(graphs, plan, *backend, kRanks);
  const std::clock_t end = std::clock();
  TESSERA_CHECK(run.ok()) << run.status();
  return {run->FindProgram(kTrain)->instructions.size(),
          static_cast<double>(end - begin) / CLOCKS_PER_SEC};
}

void Run() {
  std::printf("%-22s %13s %9s %13s %9s %7s\n", "Plan", "instructions", "seconds", "instructions",
              "seconds", "ratio");
  for (const char* plan : {"data_parallel", "fully_sharded", "data_tensor_parallel"}) {
    const Measured few = Compile(plan, kFew), many = Compile(plan, kMany);
    const double seconds = many.seconds / few.seconds;
    const double instructions =
        static_cast<double>(many.instructions) / static_cast<double>(few.instructions);
    std::printf("%-22s %13zu %9.2f %13zu %9.2f %7.2f\n", plan, few.instructions, few.seconds,
                many.instructions, many.seconds, 10 * seconds / instructions);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tessera

int main() { tessera::Run(); }
