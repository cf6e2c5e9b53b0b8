// Runs a small model through all Programs of a run on the reference backend.
#include "core/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "core/compile/compile.h"
#include "core/kernels/host/host_backend.h"
#include "core/kernels/reference/backend.h"
#include "core/train/data/synthetic_dataset.h"
#include "core/train/data/testing/read_rows.h"
#include "core/train/programs.h"
#include "core/train/sampling.h"
#include "core/train/testing/bigram.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

constexpr int64_t kVocabulary = BigramModel::kVocabulary;

RunConfig Config() { return BigramConfig(); }

// The reference backend, on a device that can fail.
class FailingBackend : public HostBackend {
 public:
  absl::string_view name() const override { return reference_->name(); }
  absl::Span<const Kernel* const> kernels() const override { return reference_->kernels(); }
  Processor processor() const override { return reference_->processor(); }
  DType Realize(DType dtype) const override { return reference_->Realize(dtype); }
  absl::Status CopyToHost(void* host, const void* device, int64_t bytes) override {
    if (fails) return absl::InternalError("the device is gone");
    return HostBackend::CopyToHost(host, device, bytes);
  }

  bool fails = false;

 private:
  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
};

// An engine and a trainer for a model.
struct TestRun {
  explicit TestRun(const BigramModel& its_model, const RunConfig& config = Config(),
                   RunGraphs parts = RunGraphs::kAll)
      : model(its_model) {
    auto graphs = RecordRun(model, config, parts);
    EXPECT_TRUE(graphs.ok()) << graphs.status();
    const Plan plan = PlanOfConfig(config, *graphs);
    auto compiled = CompileRun(*std::move(graphs), plan, *backend);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    auto created = Engine::Create(*std::move(compiled), backend.get());
    EXPECT_TRUE(created.ok()) << created.status();
    engine = *std::move(created);
    dataset = *SyntheticDataset::Create(model.BatchFields(config.sequence()), 8 * config.batch(),
                                        config.seed());
    trainer = std::make_unique<Trainer>(config, &model, engine.get(), dataset.get());
  }

  BigramModel model;
  std::unique_ptr<FailingBackend> backend = std::make_unique<FailingBackend>();
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Dataset> dataset;
  std::unique_ptr<Trainer> trainer;
};

// All state, as bytes.
std::vector<char> StateOf(Engine& engine) {
  std::vector<char> all;
  for (const StateInfo& state : engine.states()) {
    std::vector<char> bytes(NumBytes(state.type));
    EXPECT_TRUE(engine.ReadState(state, 0, absl::MakeSpan(bytes)).ok());
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

std::vector<double> Steps(Trainer& trainer, int count) {
  std::vector<double> losses;
  for (int i = 0; i < count; ++i) {
    const auto result = trainer.Step();
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->finite);
    losses.push_back(result->loss);
  }
  return losses;
}

absl::StatusOr<bool> Never(const absl::Status&) { return false; }

// A dataset that must be compared, and says whether it was.
class TouchedDataset : public Dataset {
 public:
  explicit TouchedDataset(const Dataset* dataset) : dataset_(*dataset) {}

  const std::vector<BatchField>& fields() const override { return dataset_.fields(); }
  absl::Status Read(DataSplit split, size_t field, const Box& box,
                    absl::Span<char> bytes) const override {
    return dataset_.Read(split, field, box, bytes);
  }
  bool MustCompare() const override { return true; }
  absl::Status Compare() const override {
    ++compared;
    return same;
  }
  int64_t RowsPerEpoch(int64_t sequence) const override { return dataset_.RowsPerEpoch(sequence); }
  std::string Fingerprint() const override { return dataset_.Fingerprint(); }
  int64_t EvaluationRows() const override { return dataset_.EvaluationRows(); }

  mutable int compared = 0;
  absl::Status same;

 private:
  const Dataset& dataset_;
};

TEST(TrainerTest, AStepComparesTheDataUnlessTheCallerHasReadThem) {
  TestRun run{BigramModel()};
  TouchedDataset touched(run.dataset.get());
  Trainer trainer(Config(), &run.model, run.engine.get(), &touched);
  ASSERT_TRUE(trainer.Initialise().ok());
  ASSERT_TRUE(trainer.Step().ok());
  EXPECT_EQ(touched.compared, 1);
  ASSERT_TRUE(trainer.ReadBatch().ok());
  EXPECT_TRUE(trainer.MustCompareData());
  ASSERT_TRUE(trainer.Step().ok());
  EXPECT_EQ(touched.compared, 1);
  // A batch of changed data is used by no later step either.
  touched.same = absl::FailedPreconditionError("changed");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(trainer.Step().status(), touched.same);
    EXPECT_EQ(trainer.step(), 2);
  }
}

TEST(TrainerTest, StepsUseTheirOwnBatchAndRate) {
  TestRun run{BigramModel()};
  ASSERT_TRUE(run.trainer->Initialise().ok());
  const auto first = run.trainer->Step();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->step, 1);
  EXPECT_NEAR(first->lr, 0.05 / 3, 1e-12);
  EXPECT_GT(first->grad_norm, 0);
  const auto second = run.trainer->Step(Timing::kInstructions);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->step, 2);
  EXPECT_NE(first->loss, second->loss);
  EXPECT_EQ(run.trainer->step(), 2);
  EXPECT_EQ(run.trainer->rows(), 2 * Config().batch());
}

TEST(TrainerTest, InitialValuesAreKeyedBySeedAndPath) {
  TestRun a{BigramModel()}, b{BigramModel()};
  RunConfig other = Config();
  other.set_seed(6);
  TestRun c{BigramModel(), other};
  ASSERT_TRUE(a.trainer->Initialise().ok());
  ASSERT_TRUE(b.trainer->Initialise().ok());
  ASSERT_TRUE(c.trainer->Initialise().ok());
  EXPECT_EQ(StateOf(*a.engine), StateOf(*b.engine));
  EXPECT_NE(StateOf(*a.engine), StateOf(*c.engine));
}

TEST(TrainerTest, EvaluationDrawsNothingAndChangesNothing) {
  TestRun run{BigramModel()};
  ASSERT_TRUE(run.trainer->Initialise().ok());
  Steps(*run.trainer, 2);
  const std::vector<char> before = StateOf(*run.engine);
  const auto first = run.trainer->Evaluate(Never);
  const auto second = run.trainer->Evaluate(Never);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(first->loss, second->loss);
  EXPECT_NEAR(first->loss, std::log(kVocabulary), 1);
  EXPECT_EQ(first->batches, 8);
  EXPECT_EQ(StateOf(*run.engine), before);
  EXPECT_EQ(run.trainer->Evaluate([](const absl::Status&) { return true; })->batches, 0);
}

// Returns for each token the one that the model predicts.
std::vector<int32_t> Predictions(Engine& engine) {
  constexpr int64_t kChannels = 4;
  std::vector<double> table(kVocabulary * kChannels), head(table.size());
  EXPECT_TRUE(engine.ReadStateValues(kEvaluate, "table", absl::MakeSpan(table)).ok());
  EXPECT_TRUE(engine.ReadStateValues(kEvaluate, "head", absl::MakeSpan(head)).ok());
  std::vector<int32_t> best;
  for (int64_t token = 0; token < kVocabulary; ++token) {
    std::vector<double> logits;
    for (int64_t next = 0; next < kVocabulary; ++next) {
      logits.push_back(std::inner_product(&table[token * kChannels], &table[token * kChannels] + 4,
                                          &head[next * kChannels], 0.0));
    }
    best.push_back(static_cast<int32_t>(absl::c_max_element(logits) - logits.begin()));
  }
  return best;
}

// 7 rows in batches of 3: the last one has a single row.
TEST(TrainerTest, MetricsAreThoseOfARecount) {
  constexpr int64_t kRows = 7;
  TestRun run{BigramModel()};
  ASSERT_TRUE(run.trainer->Initialise().ok());
  Steps(*run.trainer, 2);
  const RunConfig config = Config();
  run.dataset = *SyntheticDataset::Create(run.model.BatchFields(config.sequence()), kRows, 9);
  Trainer trainer(config, &run.model, run.engine.get(), run.dataset.get());
  const auto evaluated = trainer.Evaluate(Never);
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  EXPECT_EQ(evaluated->batches, 3);

  const TokenRows rows =
      ReadTokens(*run.dataset, DataSplit::kEvaluate, {{0, 0}, {kRows, config.sequence()}});
  const std::vector<int32_t> predicted = Predictions(*run.engine);
  double correct = 0;
  for (size_t i = 0; i < rows.tokens.size(); ++i) {
    correct += predicted[rows.tokens[i]] == rows.targets[i] ? 1 : 0;
  }
  ASSERT_EQ(evaluated->metrics.size(), 1);
  EXPECT_EQ(evaluated->metrics[0].first, "accuracy");
  EXPECT_EQ(evaluated->metrics[0].second, correct / static_cast<double>(rows.tokens.size()));
  EXPECT_GT(correct, 0);
}

TEST(TrainerTest, AnEvaluationPassesEachRowOnce) {
  const RunConfig config = Config();
  const TestRun run(BigramModel(), config, RunGraphs::kEvaluateRows);
  constexpr int64_t kRows = 7;  // the last of three batches has one row
  ASSERT_EQ(config.batch(), 3);
  const auto dataset =
      *SyntheticDataset::Create(run.model.BatchFields(config.sequence()), kRows, config.seed());
  Trainer trainer(config, &run.model, run.engine.get(), dataset.get());
  std::vector<double> losses;
  const auto result = trainer.Evaluate(Never, [&losses](const PredictedRows& rows) {
    EXPECT_EQ(rows.first, static_cast<int64_t>(losses.size()));
    EXPECT_EQ(rows.columns.size(), 1u);
    const PredictedRows::Column& column = rows.columns[0];
    EXPECT_EQ(column.name, "loss");
    EXPECT_FALSE(column.integers);
    EXPECT_EQ(static_cast<int64_t>(column.values.size()), rows.count);
    losses.insert(losses.end(), column.values.begin(), column.values.end());
    return absl::OkStatus();
  });
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(losses.size(), static_cast<size_t>(kRows));
  // All rows have as many targets.
  EXPECT_NEAR(std::accumulate(losses.begin(), losses.end(), 0.0) / kRows, result->loss, 1e-12);
}

TEST(TrainerTest, AModelThatNeedsTargetsPredictsNothing) {
  EXPECT_EQ(RecordRun(BigramModel(), Config(), RunGraphs::kPredict).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(TrainerTest, ASaveThatCannotReadTheDeviceNamesTheState) {
  const std::string folder = ::testing::TempDir() + "/unreadable";
  TestRun run{BigramModel()};
  ASSERT_TRUE(run.trainer->Initialise().ok());
  ASSERT_TRUE(run.trainer->Save(folder, "").ok());
  run.backend->fails = true;
  const absl::Status status = run.trainer->Save(folder, "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              MatchesRegex("cannot save the checkpoint of step 0: cannot read bytes 0 to [0-9]+ of "
                           "'.+': the device is gone; earlier checkpoints are as they were"));
  run.backend->fails = false;
  EXPECT_EQ(OpenCheckpoint(folder)->checkpoint->step(), 0);
}

TEST(TrainerTest, ALoadedRunContinuesBitForBit) {
  const std::string folder = ::testing::TempDir() + "/bit_for_bit";
  TestRun uninterrupted{BigramModel()}, first{BigramModel()}, second{BigramModel()};
  ASSERT_TRUE(uninterrupted.trainer->Initialise().ok());
  const std::vector<double> losses = Steps(*uninterrupted.trainer, 6);

  ASSERT_TRUE(first.trainer->Initialise().ok());
  Steps(*first.trainer, 3);
  const auto saved = first.trainer->Save(folder, "a config");
  ASSERT_TRUE(saved.ok()) << saved.status();
  const auto opened = OpenCheckpoint(folder);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->checkpoint->config(), "a config");
  const auto notes =
      second.trainer->Load(*opened->checkpoint, Extra::kRefuse, opened->checkpoint->rows());
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_THAT(*notes, IsEmpty());
  EXPECT_EQ(second.trainer->step(), 3);
  EXPECT_EQ(Steps(*second.trainer, 3), std::vector<double>(losses.begin() + 3, losses.end()));
  EXPECT_EQ(StateOf(*second.engine), StateOf(*uninterrupted.engine));

  // The run has an identity, which a change of its configuration does not change.
  RunConfig changed = Config();
  changed.set_seed(Config().seed() + 1);
  TestRun third{BigramModel(), changed};
  ASSERT_TRUE(third.trainer->Load(*opened->checkpoint, Extra::kRefuse, 0).ok());
  Steps(*third.trainer, 1);
  ASSERT_TRUE(third.trainer->Save(folder + "_changed", "").ok());
  const std::string identity = opened->checkpoint->run();
  EXPECT_EQ(identity.size(), 32);
  EXPECT_EQ(OpenCheckpoint(folder + "_changed")->checkpoint->run(), identity);
}

TEST(TrainerTest, ACheckpointOfAnotherModelIsRefused) {
  const std::string folder = ::testing::TempDir() + "/another_model";
  TestRun run{BigramModel()};
  ASSERT_TRUE(run.trainer->Initialise().ok());
  ASSERT_TRUE(run.trainer->Save(folder, "").ok());
  const auto opened = OpenCheckpoint(folder);
  ASSERT_TRUE(opened.ok());
  const auto error = [&](TestRun& other, Extra extra) {
    const auto notes = other.trainer->Load(*opened->checkpoint, extra, 0);
    EXPECT_TRUE(absl::IsFailedPrecondition(notes.status())) << notes.status();
    return std::string(notes.status().message());
  };
  TestRun wider{BigramModel(5)};
  EXPECT_THAT(error(wider, Extra::kRefuse), HasSubstr("'table' as f64[11, 4], this run as"));
  RunConfig sgd = Config();
  sgd.mutable_optimizer()->set_kind("sgd");
  TestRun without_moments{BigramModel(), sgd};
  EXPECT_THAT(error(without_moments, Extra::kRefuse), HasSubstr(".adam_"));
  sgd.mutable_optimizer()->set_momentum(0.9);
  TestRun with_momentum{BigramModel(), sgd};
  EXPECT_THAT(error(with_momentum, Extra::kRefuse), HasSubstr(".momentum', which this run has as"));

  TestRun evaluating{BigramModel(), Config(), RunGraphs::kEvaluate};
  EXPECT_TRUE(evaluating.trainer->Load(*opened->checkpoint, Extra::kLeaveOptimizer, 0).ok());
  EXPECT_EQ(evaluating.trainer->Evaluate(Never)->loss, run.trainer->Evaluate(Never)->loss);
}

TEST(TrainerTest, ANumberThatIsNotFiniteTakesNoStep) {
  TestRun run{BigramModel()};
  ASSERT_TRUE(run.trainer->Initialise().ok());
  Steps(*run.trainer, 1);
  const StateInfo& state = run.engine->states().front();
  const double nan = std::nan("");
  ASSERT_TRUE(
      run.engine->WriteState(state, 0, absl::MakeConstSpan(reinterpret_cast<const char*>(&nan), 8))
          .ok());
  // An element of the table that some batch reads.
  for (int i = 0; i < 50; ++i) {
    const std::vector<char> before = StateOf(*run.engine);
    const int64_t step = run.trainer->step();
    const auto result = run.trainer->Step();
    ASSERT_TRUE(result.ok()) << result.status();
    if (result->finite) continue;
    EXPECT_EQ(result->step, step + 1);
    EXPECT_FALSE(std::isfinite(result->loss));
    EXPECT_EQ(run.trainer->step(), step);
    EXPECT_EQ(StateOf(*run.engine), before);
    return;
  }
  FAIL() << "no batch had the token";
}

TEST(TrainerTest, MicroBatchesGiveTheSameLoss) {
  RunConfig config = Config();
  config.set_batch(4);
  config.set_micro_batches(4);
  TestRun micro_batches{BigramModel(), config};
  config.set_micro_batches(1);
  TestRun one_batch{BigramModel(), config};
  ASSERT_TRUE(micro_batches.trainer->Initialise().ok());
  ASSERT_TRUE(one_batch.trainer->Initialise().ok());
  const std::vector<double> a = Steps(*micro_batches.trainer, 5), b = Steps(*one_batch.trainer, 5);
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(a[i], b[i], 1e-12);
  EXPECT_NEAR(micro_batches.trainer->Evaluate(Never)->loss,
              one_batch.trainer->Evaluate(Never)->loss, 1e-12);
}

std::vector<int32_t> Generated(TestRun& run, int64_t tokens, double temperature = 0) {
  const std::vector<int32_t> prompt = {1, 2};
  GenerationRequest request;
  request.prompt = prompt;
  request.tokens = tokens;
  request.temperature = temperature;
  request.seed = 9;
  request.allowed_tokens = kVocabulary;
  request.max_sequence = 4;
  std::vector<int32_t> result;
  const absl::Status status = Generate(*run.engine, request, [&result](int32_t token) {
    result.push_back(token);
    return true;
  });
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

TEST(TrainerTest, GenerationIsRepeatable) {
  TestRun run{BigramModel()};
  ASSERT_TRUE(run.trainer->Initialise().ok());
  const std::vector<int32_t> text = Generated(run, 20, 1.0);
  EXPECT_EQ(text.size(), 20);
  EXPECT_EQ(Generated(run, 20, 1.0), text);
}

TEST(TrainerTest, GenerationGoesOnBeyondTheLongestSequence) {
  TestRun run{BigramModel(4, /*reads_position=*/true)};
  ASSERT_TRUE(run.trainer->Initialise().ok());
  // The last token's logit is the position, and all other logits are 0. So token 0 would be drawn
  // after position 0, where all are equal, and the last token is drawn after later positions.
  for (const StateInfo& state : run.engine->states()) {
    const std::vector<char> zeros(NumBytes(state.type), 0);
    ASSERT_TRUE(run.engine->WriteState(state, 0, zeros).ok());
  }
  EXPECT_EQ(Generated(run, 9), std::vector<int32_t>(9, kVocabulary - 1));
}

TEST(TrainerTest, EveryStateOfTrainingIsInitialised) {
  auto graphs = RecordRun(BigramModel(), Config(), RunGraphs::kAll);
  ASSERT_TRUE(graphs.ok());
  ASSERT_EQ(graphs->size(), 4);
  const Graph& initialise = (*graphs)[0];
  const Graph& train = (*graphs)[1];
  EXPECT_EQ(initialise.states().size(), train.states().size());
  for (const State& state : train.states()) {
    EXPECT_NE(initialise.FindState(state.path), nullptr) << state.path;
  }
}

TEST(TrainerTest, ThePlanRecomputesEveryBlock) {
  RunConfig config = Config();
  config.set_recompute("block");
  config.set_micro_batches(3);
  Graph graph(kTrain);
  { Scope scope(&graph, "blocks.0", Scope::kBlock); }
  { Scope scope(&graph, "blocks.1", Scope::kBlock); }
  const std::vector<Graph> graphs = {graph, Graph(kGenerate)};
  const Plan plan = PlanOfConfig(config, graphs);
  ASSERT_EQ(plan.stages(0).parts_size(), 2);
  EXPECT_EQ(plan.stages(0).parts(0).recompute_size(), 2);
  EXPECT_EQ(plan.stages(0).parts(0).recompute(1), "blocks.1");
  EXPECT_EQ(plan.stages(0).parts(0).micro_batches(), 3);
  EXPECT_EQ(plan.stages(0).parts(1).micro_batches(), 1);
}

}  // namespace
}  // namespace tessera
