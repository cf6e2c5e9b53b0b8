// Compares VGG's evaluation, its training in bf16, and batch norm in groups over ranks, with
// PyTorch.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/kernels/cpu/backend.h"
#include "core/plan/testing/completion.h"
#include "core/runtime/run_graph.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"
#include "strategies/conformance/rank_training.h"
#include "tests/parity/parity_case.h"
#include "tools/backends/backends.h"

namespace tessera {
namespace {

ParityCase ReadCase(const std::string& name) {
  auto parity = ParityCase::Read(name);
  EXPECT_TRUE(parity.ok()) << parity.status();
  return parity.ok() ? *std::move(parity) : ParityCase();
}

std::unique_ptr<Backend> BackendFor(Arithmetic arithmetic) {
  auto backend = MakeBackend(arithmetic == Arithmetic::kF64 ? "reference" : "cpu", 2);
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

class VggParityTest : public ::testing::TestWithParam<const char*> {
 protected:
  // Evaluates each batch with the states after the steps of SGD.
  void ExpectSameEvaluation(Arithmetic arithmetic) {
    const ParityCase parity = ReadCase(GetParam());
    const std::unique_ptr<Backend> backend = BackendFor(arithmetic);
    RunConfig config = parity.Config("sgd");
    if (arithmetic == Arithmetic::kBf16) config.set_dtype("bf16");
    auto graph = RecordEvaluate(*parity.model, config);
    ASSERT_TRUE(graph.ok()) << graph.status();
    graph->SetOutput("logits", graph->tensor(graph->FindValue("head.add")));
    const Plan plan = PlanOfConfig(config, absl::MakeConstSpan(&*graph, 1));
    std::vector<double> losses, correct[2];
    for (int64_t step = 0; step < config.steps(); ++step) {
      std::map<std::string, HostTensor> given = parity.Given("sgd/");
      for (const char* input : {"pictures", "labels"}) {
        given[input].values = parity.BatchOf(input, step);
      }
      const auto result = RunGraph(*graph, *backend, given, plan);
      ASSERT_TRUE(result.ok()) << result.status();
      losses.push_back(result->at("loss").values[0]);
      correct[0].push_back(result->at("accuracy").values[0]);
      correct[1].push_back(result->at("top5").values[0]);
      if (step > 0) continue;
      EXPECT_LE(Distance(result->at("logits").values, parity.state.values("eval/logits")),
                parity.Bound(arithmetic, "eval/logits"));
    }
    EXPECT_LE(Distance(losses, parity.state.values("eval/losses")),
              parity.Bound(arithmetic, "eval/losses"));
    if (arithmetic == Arithmetic::kBf16) return;  // classes that are nearly equal change places
    EXPECT_EQ(correct[0], parity.state.values("eval/correct_1"));
    EXPECT_EQ(correct[1], parity.state.values("eval/correct_5"));
  }
};

TEST_P(VggParityTest, Evaluation) { ExpectSameEvaluation(Arithmetic::kF64); }
TEST_P(VggParityTest, EvaluationInF32) { ExpectSameEvaluation(Arithmetic::kF32); }
TEST_P(VggParityTest, EvaluationInBf16) { ExpectSameEvaluation(Arithmetic::kBf16); }

TEST_P(VggParityTest, LossAndEveryGradientInBf16) {
  ExpectSameGradients(ReadCase(GetParam()), Arithmetic::kBf16, *BackendFor(Arithmetic::kBf16));
}

TEST_P(VggParityTest, StepsOfSgdInBf16) {
  const ParityCase parity = ReadCase(GetParam());
  std::vector<std::vector<double>> losses;
  for (const int64_t first : parity.FirstBatches()) {
    const auto trained = TrainCase(parity, "sgd", Arithmetic::kBf16, *BackendFor(Arithmetic::kBf16),
                                   /*kernels=*/0, first);
    ASSERT_TRUE(trained.ok()) << trained.status();
    if (first == 0) ExpectSameTraining(parity, "sgd", Arithmetic::kBf16, *trained);
    losses.push_back(trained->losses);
  }
  ExpectSameLossesInBf16(parity, losses);
}

// Trains all steps of SGD on two ranks, which have three rows each of a batch of six, and so half
// of the second of three groups.
absl::StatusOr<TrainedCase> TrainOnTwoRanks(const ParityCase& parity, Arithmetic arithmetic,
                                            int64_t first_batch = 0) {
  const auto given = std::make_shared<GivenValues>();
  given->batch = [&](const std::string& input, int step) {
    return parity.BatchOf(input, first_batch + step);
  };
  given->lr = [&](int step) { return parity.state.values("sgd/lrs")[step]; };
  given->states = parity.States();
  TrainingRun run = RecordTraining(parity.model, parity.Config("sgd"));
  if (arithmetic != Arithmetic::kF64) run.backend = [] { return MakeCpuBackend(1); };
  run.steps = parity.state.config.at("steps");
  run.given = given;
  Plan plan = ParsePlan(
      "stages { mesh { name: 'data' } "
      "store { path: 'pictures|labels' layout: 'data: S(0)' } }");
  if (arithmetic == Arithmetic::kBf16) {
    plan.mutable_stages(0)->mutable_precision()->set_parameters(TypeProto::BF16);
  }
  ASSIGN_OR_RETURN(const TrainingResult result, Train(run, plan, 2));
  TrainedCase trained;
  for (const Tensors& step : result.outputs) {
    trained.losses.push_back(step.at("loss")[0]);
    trained.grad_norms.push_back(step.at("grad_norm")[0]);
  }
  trained.states = result.states;
  return trained;
}

TEST_P(VggParityTest, StepsOfSgdOnTwoRanks) {
  const ParityCase parity = ReadCase(GetParam());
  for (const Arithmetic arithmetic : {Arithmetic::kF64, Arithmetic::kF32}) {
    const auto trained = TrainOnTwoRanks(parity, arithmetic);
    ASSERT_TRUE(trained.ok()) << trained.status();
    ExpectSameTraining(parity, "sgd", arithmetic, *trained);
  }
}

TEST_P(VggParityTest, StepsOfSgdOnTwoRanksInBf16) {
  const ParityCase parity = ReadCase(GetParam());
  std::vector<std::vector<double>> losses;
  for (const int64_t first : parity.FirstBatches()) {
    const auto trained = TrainOnTwoRanks(parity, Arithmetic::kBf16, first);
    ASSERT_TRUE(trained.ok()) << trained.status();
    if (first == 0) ExpectSameTraining(parity, "sgd", Arithmetic::kBf16, *trained);
    losses.push_back(trained->losses);
  }
  ExpectSameLossesInBf16(parity, losses);
}

INSTANTIATE_TEST_SUITE_P(Models, VggParityTest,
                         ::testing::Values("vgg11", "vgg11_bn", "vgg11_bn_groups"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tessera
