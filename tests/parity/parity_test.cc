// Compares the engine with PyTorch's float64: the reference backend exactly, and the cpu backend
// relative to the distance of PyTorch's own float32.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "core/runtime/engine.h"
#include "core/runtime/run_graph.h"
#include "core/train/programs.h"
#include "core/train/schedule.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "models/mlp/mlp.h"
#include "strategies/conformance/drawn_kernels.h"
#include "tests/parity/state_file.h"
#include "tools/backends/backends.h"

namespace tessera {
namespace {

// The bound for float64 against float64.
constexpr double kExact = 1e-10;
// The bound for float32 is the larger of this (8 roundings) and twice PyTorch's own distance. That
// distance was measured on one processor; on others (AVX2, AVX-512) sums have other orders.
constexpr double kSmallestBound = 1e-6;

double Norm(const std::vector<double>& v) {
  double sum = 0;
  for (double x : v) sum += x * x;
  return std::sqrt(sum);
}

double Distance(const std::vector<double>& a, const std::vector<double>& b, double floor = 0) {
  EXPECT_EQ(a.size(), b.size());
  std::vector<double> difference(b.size());
  for (size_t i = 0; i < b.size(); ++i) difference[i] = a[i] - b[i];
  return Norm(difference) / std::max(Norm(b), floor);
}

struct Case {
  std::string name;
  std::string device;
  uint64_t kernels = 0;  // the seed of the kernels of training; 0: the default ones
};

class ParityTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    auto state = ReadStateFile("tests/parity/states/" + GetParam().name + ".safetensors");
    ASSERT_TRUE(state.ok()) << state.status();
    state_ = *std::move(state);
    auto backend = MakeBackend(GetParam().device, 2);
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    const nlohmann::json& model = state_.config.at("model");
    if (model.at("kind") == "gpt2") {
      GptConfig config;
      config.set_layers(model.at("layers"));
      config.set_heads(model.at("heads"));
      config.set_channels(model.at("heads").get<int64_t>() * model.at("head_dim").get<int64_t>());
      config.set_vocabulary(model.at("vocab"));
      config.set_context(model.at("context"));
      head_dim_ = model.at("head_dim");
      config.set_untied_head(!model.at("tied").get<bool>());
      config.set_gelu(model.at("activation") == "gelu_tanh" ? "tanh" : "erf");
      config.set_layer_norm_eps(model.at("ln_eps"));
      auto created = CreateGpt(config);
      ASSERT_TRUE(created.ok()) << created.status();
      model_ = *std::move(created);
    } else {
      MlpConfig config;
      config.set_window(model.at("window"));
      config.set_channels(model.at("embed_dim"));
      config.set_vocabulary(model.at("vocab"));
      config.set_activation(model.at("activation").get<std::string>());
      for (int64_t hidden : model.at("hidden")) config.add_hidden(hidden);
      auto created = CreateMlp(config);
      ASSERT_TRUE(created.ok()) << created.status();
      model_ = *std::move(created);
    }
    batch_ = state_.config.at("batch");
    sequence_ = state_.config.at("seq");
  }

  bool exact() const { return GetParam().device == "reference"; }

  // Returns the allowed distance, given the name of PyTorch's own.
  double Bound(const std::string& torch_distance) const {
    if (exact()) return kExact;
    return std::max(kSmallestBound, 2 * state_.values(torch_distance)[0]);
  }

  // Returns the tokens or targets of the batch of step `step`, counted from 0.
  std::vector<double> BatchOf(const std::string& name, int64_t step) const {
    const std::vector<double>& all = state_.values(name);
    const int64_t size = batch_ * sequence_;
    return {all.begin() + step * size, all.begin() + (step + 1) * size};
  }

  // Returns all inputs of a Graph over the parameters and batch 0.
  std::map<std::string, HostTensor> Given() const {
    std::map<std::string, HostTensor> given;
    given["tokens"].values = BatchOf("tokens", 0);
    given["targets"].values = BatchOf("targets", 0);
    for (const std::string& path : state_.Below("param/")) {
      given[path].values = state_.values("param/" + path);
    }
    return given;
  }

  RunConfig Config(const std::string& optimizer) const {
    RunConfig config;
    config.set_steps(state_.config.at("steps"));
    config.set_batch(batch_);
    config.set_sequence(sequence_);
    config.set_micro_batches(1);
    const nlohmann::json& settings = state_.config.at(optimizer);
    const nlohmann::json& schedule = state_.config.at("schedule");
    OptimizerConfig& o = *config.mutable_optimizer();
    o.set_kind(optimizer);
    o.set_lr(settings.at("lr"));
    o.set_schedule("cosine");
    o.set_warmup_steps(schedule.at("warmup"));
    o.set_min_lr(o.lr() * schedule.at("min_lr_ratio").get<double>());
    o.set_weight_decay(settings.at("weight_decay"));
    o.set_clip_norm(settings.at("max_norm"));
    if (optimizer == "sgd") {
      o.set_momentum(settings.at("momentum"));
    } else {
      o.set_beta1(settings.at("betas")[0]);
      o.set_beta2(settings.at("betas")[1]);
      o.set_eps(settings.at("eps"));
    }
    return config;
  }

  void TrainTenSteps(const std::string& optimizer);

  StateFile state_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<LanguageModel> model_;
  int64_t batch_ = 0;
  int64_t sequence_ = 0;
  size_t head_dim_ = 1;  // of a GPT
};

TEST_P(ParityTest, LossAndEveryGradient) {
  Graph graph("train");
  Tensor loss = model_->RecordLoss(graph, batch_, sequence_, /*training=*/false).loss.mean;
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  std::vector<Tensor> parameters;
  for (const State& state : graph.states()) parameters.push_back(graph.tensor(state.input));
  auto gradients = RecordGradients(graph, loss, parameters);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  graph.SetOutput("loss", loss);
  for (size_t i = 0; i < parameters.size(); ++i) {
    graph.SetOutput("grad/" + graph.states()[i].path, (*gradients)[i]);
  }
  auto result = RunGraph(graph, *backend_, Given());
  ASSERT_TRUE(result.ok()) << result.status();

  EXPECT_LE(Distance(result->at("loss").values, state_.values("loss")), Bound("fp32/loss"));
  const std::vector<std::string> paths = state_.Below("grad/");
  EXPECT_EQ(paths.size(), parameters.size());
  double squares = 0;
  for (const std::string& path : paths) {
    squares += std::pow(Norm(state_.values("grad/" + path)), 2);
  }
  const double floor = state_.config.at("grad_floor").get<double>() * std::sqrt(squares);
  for (const std::string& path : paths) {
    EXPECT_LE(Distance(result->at("grad/" + path).values, state_.values("grad/" + path), floor),
              Bound("fp32/grad/" + path))
        << path;
  }
}

TEST_P(ParityTest, Logits) {
  Graph graph("logits");
  graph.SetOutput("logits", model_->RecordLogits(graph, batch_, sequence_));
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  auto result = RunGraph(graph, *backend_, Given());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LE(Distance(result->at("logits").values, state_.values("logits")), Bound("fp32/logits"));
}

void ParityTest::TrainTenSteps(const std::string& optimizer) {
  const RunConfig config = Config(optimizer);
  auto graph = RecordTrain(*model_, config);
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto run = CompileRun({*graph}, Plan(), *backend_);
  ASSERT_TRUE(run.ok()) << run.status();
  if (GetParam().kernels > 0) {
    Plan plan;
    *plan.mutable_kernels() = DrawKernels(run->programs, *backend_, GetParam().kernels);
    run = CompileRun({*graph}, plan, *backend_);
    ASSERT_TRUE(run.ok()) << run.status();
  }
  auto engine = Engine::Create(*std::move(run), backend_.get());
  ASSERT_TRUE(engine.ok()) << engine.status();
  Engine& e = **engine;
  for (const StateInfo& state : e.states()) {
    std::vector<double> values(NumElements(state.type.shape), 0.0);
    if (state.role == Role::kParameter) values = state_.values("param/" + state.path);
    ASSERT_TRUE(e.SetStateValues(kTrain, state.path, values).ok());
  }
  std::vector<double> losses, norms;
  for (int64_t step = 1; step <= config.steps(); ++step) {
    const double lr = LearningRate(config.optimizer(), step, config.steps());
    EXPECT_NEAR(lr, state_.values(optimizer + "/lrs")[step - 1], 1e-15);
    ASSERT_TRUE(e.SetInput(kTrain, "tokens", BatchOf("tokens", step - 1)).ok());
    ASSERT_TRUE(e.SetInput(kTrain, "targets", BatchOf("targets", step - 1)).ok());
    ASSERT_TRUE(e.SetInput(kTrain, "lr", std::vector<double>{lr}).ok());
    ASSERT_TRUE(e.Run(kTrain).ok());
    double loss = 0, norm = 0;
    ASSERT_TRUE(e.ReadOutput(kTrain, "loss", absl::MakeSpan(&loss, 1)).ok());
    ASSERT_TRUE(e.ReadOutput(kTrain, "grad_norm", absl::MakeSpan(&norm, 1)).ok());
    losses.push_back(loss);
    norms.push_back(norm);
  }
  const std::string torch = "fp32/" + optimizer;
  EXPECT_LE(Distance(losses, state_.values(optimizer + "/losses")), Bound(torch + "/losses"));
  EXPECT_LE(Distance(norms, state_.values(optimizer + "/grad_norms")), exact() ? kExact : 2e-6);

  // Adam turns the rounding noise of the key biases, whose gradient is truly zero, into steps; they
  // are left out there (tests/parity/README.md).
  std::vector<double> all, all_torch;
  for (const std::string& path : state_.Below("param/")) {
    const std::vector<double>& expected = state_.values(absl::StrCat(optimizer, "/param/", path));
    std::vector<double> actual(expected.size());
    ASSERT_TRUE(e.ReadStateValues(kTrain, path, absl::MakeSpan(actual)).ok());
    const bool has_keys =
        path.size() > 13 && path.compare(path.size() - 13, 13, "attn.qkv.bias") == 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const bool key = has_keys && i / head_dim_ % 3 == 1;  // of [heads, 3, head_dim]
      if (key && optimizer == "adamw") continue;
      all.push_back(actual[i]);
      all_torch.push_back(expected[i]);
    }
    if (optimizer == "sgd") {
      EXPECT_LE(Distance(actual, expected), Bound(absl::StrCat(torch, "/param/", path))) << path;
    }
  }
  EXPECT_LE(Distance(all, all_torch),
            Bound(torch + (optimizer == "sgd" ? "/params" : "/params_without_key_bias")));
}

TEST_P(ParityTest, TenStepsOfSgd) { TrainTenSteps("sgd"); }
TEST_P(ParityTest, TenStepsOfAdamW) { TrainTenSteps("adamw"); }

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const char* name : {"gpt_tied", "gpt_untied", "mlp_relu", "mlp_gelu"}) {
    cases.push_back({name, "reference"});
    for (const uint64_t kernels : {0, 1, 2, 3}) cases.push_back({name, "cpu", kernels});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Models, ParityTest, ::testing::ValuesIn(AllCases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           const Case& c = info.param;
                           const std::string name = c.name + "_" + c.device;
                           return c.kernels == 0 ? name : absl::StrCat(name, "_", c.kernels);
                         });

}  // namespace
}  // namespace tessera
