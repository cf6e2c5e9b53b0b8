// Checks the memory plan of every model, with and without recomputation and micro-batches, against
// the memory that kernels access.
#include <memory>
#include <string>
#include <vector>

#include "core/program/memory/memory_plan.h"
#include "core/runtime/memory_check.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "models/mlp/mlp.h"
#include "models/picture_mlp/picture_mlp.h"
#include "models/ratings/ratings.h"
#include "models/vgg/vgg.h"
#include "tools/backends/backends.h"

namespace tessera {
namespace {

constexpr int64_t kBatch = 4;
constexpr int64_t kSequence = 12;

std::unique_ptr<Model> MakeModel(const std::string& name) {
  if (name == "mlp") {
    MlpConfig config;
    config.set_window(kSequence);
    config.set_channels(10);
    config.add_hidden(33);
    config.add_hidden(21);
    config.set_vocabulary(61);
    return *CreateMlp(config);
  }
  if (name == "picture_mlp") {
    PictureMlpConfig config;
    config.set_height(7);
    config.set_width(6);
    config.set_channels(3);
    config.add_hidden(33);
    config.add_hidden(21);
    config.set_classes(61);
    config.set_dropout(0.1);
    return *CreatePictureMlp(config);
  }
  if (name == "ratings") {
    RatingsConfig config;
    config.set_users(59);
    config.set_items(61);
    config.set_channels(10);
    config.set_hidden(33);
    config.set_stars(7);
    return *CreateRatings(config);
  }
  if (name == "vgg" || name == "vgg_norm") {
    VggConfig config;
    config.set_height(7);
    config.set_width(6);
    config.set_channels(3);
    for (const int64_t channels : {9, 0, 10, 0}) config.add_layers(channels);
    config.add_hidden(33);
    config.set_classes(61);
    config.set_dropout(0.1);
    config.set_crop_padding(1);
    config.set_flips(true);
    config.set_batch_norm(name == "vgg_norm");
    config.set_batch_norm_groups(name == "vgg_norm" ? 2 : 0);
    return *CreateVgg(config);
  }
  GptConfig config;
  config.set_layers(3);
  config.set_heads(2);
  config.set_channels(18);
  config.set_vocabulary(61);
  config.set_context(kSequence);
  config.set_untied_head(name == "gpt_untied");
  config.set_dropout(name == "gpt_dropout" ? 0.1 : 0);
  return *CreateGpt(config);
}

struct Case {
  std::string model;
  std::string device;
  bool recompute;
  int64_t micro_batches;
};

RunConfig ConfigOf(const Case& c) {
  RunConfig config;
  config.set_steps(10);
  config.set_batch(kBatch);
  config.set_sequence(kSequence);
  config.set_micro_batches(c.micro_batches);
  config.set_recompute(c.recompute ? "block" : "none");
  config.mutable_sample()->set_tokens(5);
  OptimizerConfig& optimizer = *config.mutable_optimizer();
  optimizer.set_kind("adamw");
  optimizer.set_lr(1e-3);
  optimizer.set_schedule("constant");
  optimizer.set_beta1(0.9);
  optimizer.set_beta2(0.95);
  optimizer.set_eps(1e-8);
  optimizer.set_weight_decay(0.1);
  optimizer.set_clip_norm(1);
  return config;
}

// A run after initialisation and one training step.
struct Started {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
};

absl::Status SetBatch(const Model& model, Engine& engine, const std::string& program,
                      int64_t step) {
  absl::Status status;
  for (const BatchField& field : model.BatchFields(kSequence)) {
    std::vector<double> values(kBatch * NumElements(field.type.shape));
    for (size_t i = 0; i < values.size(); ++i) {
      const auto drawn = static_cast<double>((i * 7 + step * 13) % field.limit);
      values[i] = i % 11 == 3 ? static_cast<double>(field.missing) : drawn;
    }
    if (status.ok()) status = engine.SetInput(program, field.name, values);
  }
  if (status.ok() && program == kTrain) {
    status = engine.SetInput(program, "lr", std::vector<double>{1e-3});
  }
  if (status.ok()) status = engine.SetScalarIfRead(program, "seed", 5);
  if (status.ok()) status = engine.SetScalarIfRead(program, "step", step);
  return status;
}

absl::Status SetToken(Engine& engine) {
  absl::Status status = engine.SetInput(kGenerate, "token", std::vector<int32_t>{17});
  if (status.ok()) status = engine.SetInput(kGenerate, "position", std::vector<int32_t>{3});
  return status;
}

Started Start(const Case& c) {
  Started run;
  run.backend = *MakeBackend(c.device, 2);
  run.model = MakeModel(c.model);
  RunConfig config = ConfigOf(c);
  if (run.model->AsLanguageModel() == nullptr) config.clear_sample();
  auto graphs = RecordRun(*run.model, config, RunGraphs::kAll);
  EXPECT_TRUE(graphs.ok()) << graphs.status();
  const Plan plan = PlanOfConfig(config, *graphs);
  auto compiled = CompileRun(*std::move(graphs), plan, *run.backend);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  auto engine = Engine::Create(*std::move(compiled), run.backend.get());
  EXPECT_TRUE(engine.ok()) << engine.status();
  run.engine = *std::move(engine);
  EXPECT_TRUE(run.engine->SetScalarIfRead(kInitialise, "seed", 5).ok());
  EXPECT_TRUE(run.engine->Run(kInitialise).ok());
  EXPECT_TRUE(SetBatch(*run.model, *run.engine, kTrain, 0).ok());
  EXPECT_TRUE(run.engine->Run(kTrain).ok());
  return run;
}

class MemoryTest : public ::testing::TestWithParam<Case> {};

TEST_P(MemoryTest, EveryProgramStaysWhereItWasPlanned) {
  const Started run = Start(GetParam());
  for (const std::string program : {kTrain, kEvaluate}) {
    const absl::Status status = CheckMemory(*run.engine, program, [&](Engine& engine) {
      return SetBatch(*run.model, engine, program, 1);
    });
    EXPECT_TRUE(status.ok()) << program << ": " << status;
  }
  if (run.engine->HasProgram(kGenerate)) {
    ASSERT_TRUE(run.engine->ClearCaches(kGenerate).ok());
    EXPECT_TRUE(CheckMemory(*run.engine, kGenerate, SetToken).ok())
        << CheckMemory(*run.engine, kGenerate, SetToken);
  }
  const absl::Status initialise = CheckMemory(*run.engine, kInitialise, [](Engine& engine) {
    return engine.SetScalarIfRead(kInitialise, "seed", 6);
  });
  EXPECT_TRUE(initialise.ok()) << initialise;
}

TEST_P(MemoryTest, ThePeakIsWithinFivePercentOfTheLiveBytes) {
  const Started run = Start(GetParam());
  for (const Program& program : run.engine->run().programs) {
    const MemoryReport report = ReportMemory(program);
    // The plan reserves memory for all states of the run; a Program may access only some.
    int64_t untouched = run.engine->run().state_bytes;
    for (const Buffer& buffer : program.buffers) {
      if (buffer.state) untouched -= (buffer.bytes + 63) / 64 * 64;
    }
    EXPECT_LE(report.arena_bytes, 1.05 * (report.live_bytes + untouched))
        << program.name << ": " << report.live_bytes << " bytes live at once";
  }
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const char* model : {"gpt_tied", "gpt_untied", "gpt_dropout", "mlp", "picture_mlp",
                            "ratings", "vgg", "vgg_norm"}) {
    for (const char* device : {"cpu", "reference"}) {
      for (bool recompute : {false, true}) {
        for (int64_t micro_batches : {1, 2}) {
          cases.push_back({model, device, recompute, micro_batches});
        }
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Models, MemoryTest, ::testing::ValuesIn(AllCases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           return info.param.model + "_" + info.param.device +
                                  (info.param.recompute ? "_recompute" : "") + "_micro_batches" +
                                  std::to_string(info.param.micro_batches);
                         });

// Returns the bits of the states after two steps.
std::vector<char> StatesAfterTwoSteps(const Case& c) {
  const Started run = Start(c);
  EXPECT_TRUE(SetBatch(*run.model, *run.engine, kTrain, 1).ok());
  EXPECT_TRUE(run.engine->Run(kTrain).ok());
  std::vector<char> bits;
  for (const StateInfo& state : run.engine->states()) {
    std::vector<char> bytes(NumBytes(state.type));
    EXPECT_TRUE(run.engine->ReadState(state, 0, absl::MakeSpan(bytes)).ok());
    bits.insert(bits.end(), bytes.begin(), bytes.end());
  }
  return bits;
}

TEST(Recomputation, GivesTheSameBits) {
  for (const char* model : {"gpt_tied", "gpt_untied", "gpt_dropout", "mlp", "picture_mlp",
                            "ratings", "vgg", "vgg_norm"}) {
    for (const char* device : {"cpu", "reference"}) {
      for (int64_t micro_batches : {1, 2}) {
        EXPECT_EQ(StatesAfterTwoSteps({model, device, false, micro_batches}),
                  StatesAfterTwoSteps({model, device, true, micro_batches}))
            << model << " on " << device << " in " << micro_batches << " micro-batches";
      }
    }
  }
}

TEST(Recomputation, TakesLessMemory) {
  const Started with = Start({"gpt_tied", "cpu", true, 1});
  const Started without = Start({"gpt_tied", "cpu", false, 1});
  EXPECT_LT(ReportMemory(*with.engine->run().FindProgram(kTrain)).live_bytes,
            ReportMemory(*without.engine->run().FindProgram(kTrain)).live_bytes);
}

// Regression: the gradients of q, k and v were copied into that of qkv, three copies in each layer.
TEST(Copies, AStepOfGptHasNone) {
  for (const int64_t micro_batches : {1, 2}) {
    const Started run = Start({"gpt_dropout", "cpu", true, micro_batches});
    const Program& program = *run.engine->run().FindProgram(kTrain);
    for (const Instruction& instruction : program.instructions) {
      EXPECT_NE(program.KernelOf(instruction).request.op, "copy") << instruction.path;
    }
  }
}

}  // namespace
}  // namespace tessera
