#include "tools/train/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "core/train/programs.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Compiles a step that reads a parameter and an input, and updates a moment.
CompiledRun Compiled(const Backend& backend, const Plan& plan = Plan()) {
  Graph graph(kTrain);
  const Tensor w = graph.Parameter("w", {16, 8}, Initializer::Constant(0));
  const Tensor x = graph.Input("x", {DType::kF32, {32, 8}});
  const Tensor moment = graph.DeclareState("w.m", {DType::kF32, {32, 16}}, Role::kOptimizerState,
                                           Initializer::Constant(0));
  graph.SetState("w.m", Add(moment, Exp(MatMul(x, w, false, true))));
  auto run = CompileRun({graph}, plan, backend);
  EXPECT_TRUE(run.ok()) << run.status();
  return *std::move(run);
}

RunConfig Config() {
  RunConfig config;
  config.set_steps(10);
  config.set_batch(4);
  config.set_sequence(8);
  config.set_micro_batches(2);
  config.mutable_optimizer()->set_kind("sgd");
  return config;
}

const SampleUnit kUnit = {"sequence", "token", 8};

TEST(ReportTest, SaysWhatIsTrained) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const CompiledRun run = Compiled(*backend);
  EXPECT_EQ(ParameterCount(run.graphs), 128);
  EXPECT_EQ(
      ModelLine("test", Config(), kUnit, run, ""),
      "test: 128 parameters, 4 sequences of 8 tokens a step in 2 micro-batches, sgd, 10 steps");
  EXPECT_THAT(ModelLine("test", Config(), kUnit, run, "2 ranks, shm"),
              EndsWith(", 10 steps; 2 ranks, shm"));
}

TEST(ReportTest, MemoryByCategory) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const std::string table = MemoryTable(Compiled(*backend), /*ranks=*/1);
  EXPECT_THAT(table, StartsWith("memory "));
  EXPECT_THAT(table, AllOf(HasSubstr("\nparameters            1.00 KiB\n"),
                           HasSubstr("\noptimizer state       4.00 KiB\n"),
                           HasSubstr("\ninputs                2.00 KiB\n"),
                           Not(HasSubstr("\ncache ")), HasSubstr("\npeak ")));
  std::vector<std::string> rows = absl::StrSplit(table, '\n');
  ASSERT_GE(rows.size(), 4);
  for (size_t i = 1; i + 2 < rows.size(); ++i) EXPECT_EQ(rows[i].size(), rows[0].size()) << rows[i];
}

TEST(ReportTest, MemoryOfDeviceAndHost) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  Plan plan;
  plan.add_stages()->add_pass()->mutable_offload()->add_tensors(
      PassChoice::Offload::OPTIMIZER_STATE);
  const std::string table = MemoryTable(Compiled(*backend, plan), /*ranks=*/1);
  EXPECT_THAT(table, StartsWith("device memory "));
  const size_t host = table.find("\nhost memory ");
  ASSERT_NE(host, std::string::npos) << table;
  EXPECT_THAT(table.substr(0, host), HasSubstr("\nparameters            1.00 KiB\n"));
  EXPECT_THAT(table.substr(host), AllOf(HasSubstr("\noptimizer state       4.00 KiB\n"),
                                        HasSubstr("\nplanned               4.00 KiB\n"),
                                        HasSubstr(", 4.00 KiB of it offloaded to the host, of")));
}

TEST(ReportTest, APlanSaysWhetherItFits) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const CompiledRun run = Compiled(*backend);
  const auto report = [&run](int64_t available) {
    return PlanReport("test", Config(), kUnit, run, /*ranks=*/1, available);
  };
  EXPECT_THAT(report(1 << 30), HasSubstr("\nfits in this machine: 1.00 GiB are available\n"));
  EXPECT_THAT(report(100), HasSubstr("\ndoes not fit in this machine: 100 B are available\n"));
  EXPECT_THAT(report(0), Not(HasSubstr("this machine")));
  EXPECT_THAT(report(0), HasSubstr("in 3 instructions"));
  EXPECT_THAT(PlanReport("test", Config(), kUnit, run, /*ranks=*/4, 1 << 30, "a device of a100"),
              HasSubstr("\none rank fits in a device of a100: 1.00 GiB are available\n"));
  EXPECT_THAT(PlanReport("test", Config(), kUnit, run, /*ranks=*/4, 100),
              AllOf(HasSubstr("10 steps; 4 ranks\n"), HasSubstr("a step of a rank computes "),
                    HasSubstr(" bytes) on each of 4 ranks, of which"),
                    HasSubstr("\none rank does not fit in this machine: 100 B are available\n")));
}

}  // namespace
}  // namespace tessera
