#include "tests/parity/parity_case.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "core/runtime/engine.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"
#include "core/train/schedule.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "models/mlp/mlp.h"
#include "models/vgg/vgg.h"
#include "strategies/conformance/drawn_kernels.h"

namespace tessera {
namespace {

// The bound for float64 against float64.
constexpr double kExact = 1e-10;
// The least bounds for float32 (8 roundings) and for bfloat16 (2 roundings): PyTorch's own distance
// may be small by luck. It was measured on one processor; on others sums have other orders.
constexpr double kLeastF32 = 1e-6, kLeastBf16 = 1.0 / (1 << 8);

// The gradients' norms are allowed this, or so many times PyTorch's distance of losses. With batch
// norm and the rows of the batches in 16 orders, PyTorch's norms are up to 4.3e-6 away.
constexpr double kLeastOfNorms = 2e-6, kNormsToLosses = 8;

// The distance of a tensor of no more elements is a matter of luck: with the rows of the batches in
// other orders, those of PyTorch's float32 for a bias of 3 elements are from 0.6e-6 to 2.7e-6. Such
// a tensor is also allowed twice the largest distance of PyTorch's others: of the gradients, or of
// the parameters and states.
constexpr size_t kFew = 16;

// Returns the allowed distance of a tensor of the kinds "grad/", or "sgd/param/" and "sgd/state/".
double BoundOfTensor(const ParityCase& parity, Arithmetic arithmetic, const std::string& name,
                     const std::vector<std::string>& kinds) {
  double bound = parity.Bound(arithmetic, name);
  if (parity.state.values(name).size() > kFew) return bound;
  for (const std::string& kind : kinds) {
    for (const std::string& path : parity.state.Below(kind)) {
      bound = std::max(bound, parity.Bound(arithmetic, kind + path));
    }
  }
  return bound;
}

absl::StatusOr<std::shared_ptr<const Model>> CreateModel(const nlohmann::json& model) {
  std::unique_ptr<Model> created;
  if (model.at("kind") == "gpt2") {
    GptConfig config;
    config.set_layers(model.at("layers"));
    config.set_heads(model.at("heads"));
    config.set_channels(model.at("heads").get<int64_t>() * model.at("head_dim").get<int64_t>());
    config.set_vocabulary(model.at("vocab"));
    config.set_context(model.at("context"));
    config.set_untied_head(!model.at("tied").get<bool>());
    config.set_gelu(model.at("activation") == "gelu_tanh" ? "tanh" : "erf");
    config.set_layer_norm_eps(model.at("ln_eps"));
    ASSIGN_OR_RETURN(created, CreateGpt(config));
  } else if (model.at("kind") == "mlp") {
    MlpConfig config;
    config.set_window(model.at("window"));
    config.set_channels(model.at("embed_dim"));
    config.set_vocabulary(model.at("vocab"));
    config.set_activation(model.at("activation").get<std::string>());
    for (const int64_t hidden : model.at("hidden")) config.add_hidden(hidden);
    ASSIGN_OR_RETURN(created, CreateMlp(config));
  } else {
    VggConfig config;
    config.set_height(model.at("height"));
    config.set_width(model.at("width"));
    config.set_channels(model.at("channels"));
    config.set_classes(model.at("classes"));
    for (const int64_t layer : model.at("layers")) config.add_layers(layer);
    for (const int64_t hidden : model.at("hidden")) config.add_hidden(hidden);
    if (!model.at("batch_norm").is_null()) {
      config.set_batch_norm(true);
      config.set_batch_norm_groups(model.at("batch_norm").at("groups"));
    }
    ASSIGN_OR_RETURN(created, CreateVgg(config));
  }
  return std::shared_ptr<const Model>(std::move(created));
}

// Returns the states that are compared together after training. Adam turns the rounding noise of
// the key biases, whose gradient is truly zero, into steps; they are left out there (README.md).
std::vector<double> Joined(const ParityCase& parity, const std::string& optimizer,
                           const std::map<std::string, std::vector<double>>& states) {
  std::vector<double> joined;
  for (const std::string& path : parity.state.Below("param/")) {
    const std::vector<double>& values = states.at(path);
    const bool has_keys = optimizer == "adamw" && absl::EndsWith(path, "attn.qkv.bias");
    const size_t head_dim =
        has_keys ? parity.state.config.at("model").at("head_dim").get<int>() : 1;
    for (size_t i = 0; i < values.size(); ++i) {
      const bool key = has_keys && i / head_dim % 3 == 1;  // of [heads, 3, head_dim]
      if (!key) joined.push_back(values[i]);
    }
  }
  return joined;
}

Plan PlanFor(Arithmetic arithmetic, RunConfig config, const Graph& graph) {
  if (arithmetic != Arithmetic::kBf16) return Plan();
  config.set_dtype("bf16");
  return PlanOfConfig(config, absl::MakeConstSpan(&graph, 1));
}

}  // namespace

double Norm(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}

double Distance(const std::vector<double>& a, const std::vector<double>& b, double floor) {
  EXPECT_EQ(a.size(), b.size());
  std::vector<double> difference(b.size());
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) difference[i] = a[i] - b[i];
  return Norm(difference) / std::max(Norm(b), floor);
}

absl::StatusOr<ParityCase> ParityCase::Read(const std::string& name) {
  ParityCase parity;
  ASSIGN_OR_RETURN(parity.state,
                   ReadStateFile(absl::StrCat("tests/parity/states/", name, ".safetensors")));
  ASSIGN_OR_RETURN(parity.model, CreateModel(parity.state.config.at("model")));
  parity.batch = parity.state.config.at("batch");
  parity.sequence = parity.state.config.value("seq", int64_t{1});
  return parity;
}

RunConfig ParityCase::Config(const std::string& optimizer) const {
  RunConfig config;
  config.set_steps(state.config.at("steps"));
  config.set_batch(batch);
  config.set_sequence(sequence);
  config.set_micro_batches(1);
  const nlohmann::json& settings = state.config.at(optimizer);
  const nlohmann::json& schedule = state.config.at("schedule");
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

std::vector<int64_t> ParityCase::FirstBatches() const { return state.config.at("first_batches"); }

std::vector<double> ParityCase::BatchOf(const std::string& input, int64_t step) const {
  const std::vector<double>& all = state.values(input);
  const int64_t batches = state.config.at("steps");
  const int64_t size = static_cast<int64_t>(all.size()) / batches;
  const auto first = all.begin() + step % batches * size;
  return {first, first + size};
}

std::map<std::string, std::vector<double>> ParityCase::States(const std::string& prefix) const {
  std::map<std::string, std::vector<double>> states;
  for (const char* kind : {"param/", "state/"}) {
    const std::string all = absl::StrCat(prefix, kind);
    for (const std::string& path : state.Below(all)) states[path] = state.values(all + path);
  }
  return states;
}

std::map<std::string, HostTensor> ParityCase::Given(const std::string& prefix) const {
  std::map<std::string, HostTensor> given;
  for (const BatchField& field : model->BatchFields(sequence)) {
    given[field.name].values = BatchOf(field.name, 0);
  }
  for (auto& [path, values] : States(prefix)) given[path].values = values;
  return given;
}

double ParityCase::Bound(Arithmetic arithmetic, const std::string& distance) const {
  if (arithmetic == Arithmetic::kF64) return kExact;
  const bool f32 = arithmetic == Arithmetic::kF32;
  return std::max(f32 ? kLeastF32 : kLeastBf16,
                  2 * state.values((f32 ? "fp32/" : "bf16/") + distance)[0]);
}

absl::StatusOr<TrainedCase> TrainCase(const ParityCase& parity, const std::string& optimizer,
                                      Arithmetic arithmetic, Backend& backend, uint64_t kernels,
                                      int64_t first_batch) {
  const RunConfig config = parity.Config(optimizer);
  ASSIGN_OR_RETURN(const Graph graph, RecordTrain(*parity.model, config));
  const Plan plan = PlanFor(arithmetic, config, graph);
  ASSIGN_OR_RETURN(CompiledRun run, CompileRun({graph}, plan, backend));
  if (kernels > 0) {
    Plan drawn = plan;
    *drawn.mutable_kernels() = DrawKernels(run.programs, backend, kernels);
    ASSIGN_OR_RETURN(run, CompileRun({graph}, drawn, backend));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(std::move(run), &backend));
  const auto initial = parity.States();
  for (const StateInfo& state : engine->states()) {
    const auto found = initial.find(state.path);
    const std::vector<double> zeros(NumElements(state.type.shape), 0.0);
    RETURN_IF_ERROR(
        engine->SetStateValues(kTrain, state.path, found == initial.end() ? zeros : found->second));
  }
  TrainedCase trained;
  for (int64_t step = 1; step <= config.steps(); ++step) {
    const double lr = LearningRate(config.optimizer(), step, config.steps());
    EXPECT_NEAR(lr, parity.state.values(optimizer + "/lrs")[step - 1], 1e-15);
    for (const BatchField& field : parity.model->BatchFields(parity.sequence)) {
      const std::vector<double> batch = parity.BatchOf(field.name, first_batch + step - 1);
      RETURN_IF_ERROR(engine->SetInput(kTrain, field.name, batch));
    }
    RETURN_IF_ERROR(engine->SetInput(kTrain, "lr", absl::MakeConstSpan(&lr, 1)));
    RETURN_IF_ERROR(engine->Run(kTrain));
    double loss = 0, norm = 0;
    RETURN_IF_ERROR(engine->ReadOutput(kTrain, "loss", absl::MakeSpan(&loss, 1)));
    RETURN_IF_ERROR(engine->ReadOutput(kTrain, "grad_norm", absl::MakeSpan(&norm, 1)));
    trained.losses.push_back(loss);
    trained.grad_norms.push_back(norm);
  }
  for (const auto& [path, values] : initial) {
    std::vector<double>& read = trained.states[path];
    read.resize(values.size());
    RETURN_IF_ERROR(engine->ReadStateValues(kTrain, path, absl::MakeSpan(read)));
  }
  return trained;
}

void ExpectSameGradients(const ParityCase& parity, Arithmetic arithmetic, Backend& backend) {
  Graph graph(kTrain);
  const Tensor loss =
      parity.model->RecordLoss(graph, parity.batch, parity.sequence, /*training=*/true).loss.mean;
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  std::vector<Tensor> parameters;
  std::vector<std::string> paths;
  for (const State& state : graph.states()) {
    if (state.role != Role::kParameter) continue;
    parameters.push_back(graph.tensor(state.input));
    paths.push_back(state.path);
  }
  const auto gradients = RecordGradients(graph, loss, parameters);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  graph.SetOutput("loss", loss);
  for (size_t i = 0; i < paths.size(); ++i) graph.SetOutput("grad/" + paths[i], (*gradients)[i]);
  const auto result =
      RunGraph(graph, backend, parity.Given(), PlanFor(arithmetic, parity.Config("sgd"), graph));
  ASSERT_TRUE(result.ok()) << result.status();

  const StateFile& state = parity.state;
  EXPECT_LE(Distance(result->at("loss").values, state.values("loss")),
            parity.Bound(arithmetic, "loss"));
  const std::vector<std::string> expected = state.Below("grad/");
  EXPECT_EQ(std::set<std::string>(expected.begin(), expected.end()),
            std::set<std::string>(paths.begin(), paths.end()));
  double squares = 0;
  for (const std::string& path : expected) {
    squares += std::pow(Norm(state.values("grad/" + path)), 2);
  }
  const double floor = state.config.at("grad_floor").get<double>() * std::sqrt(squares);
  for (const std::string& path : paths) {
    const std::string name = "grad/" + path;
    EXPECT_LE(Distance(result->at(name).values, state.values(name), floor),
              BoundOfTensor(parity, arithmetic, name, {"grad/"}))
        << path;
  }
}

void ExpectSameTraining(const ParityCase& parity, const std::string& optimizer,
                        Arithmetic arithmetic, const TrainedCase& trained) {
  const StateFile& state = parity.state;
  const auto bound = [&](const std::string& name) {
    return parity.Bound(arithmetic, absl::StrCat(optimizer, "/", name));
  };
  if (arithmetic != Arithmetic::kBf16) {
    EXPECT_LE(Distance(trained.losses, state.values(optimizer + "/losses")), bound("losses"));
    EXPECT_LE(Distance(trained.grad_norms, state.values(optimizer + "/grad_norms")),
              arithmetic == Arithmetic::kF64
                  ? kExact
                  : std::max(kLeastOfNorms,
                             kNormsToLosses * state.values("fp32/" + optimizer + "/losses")[0]));
  }
  const auto expected = parity.States(optimizer + "/");
  EXPECT_LE(
      Distance(Joined(parity, optimizer, trained.states), Joined(parity, optimizer, expected)),
      bound(optimizer == "sgd" ? "params" : "params_without_key_bias"));
  // With bf16, trajectories drift apart, and a single tensor is close or far by luck.
  if (optimizer != "sgd" || arithmetic == Arithmetic::kBf16) return;
  const std::vector<std::string> kinds = {"sgd/param/", "sgd/state/"};
  for (const std::string& kind : kinds) {
    for (const std::string& path : state.Below(kind)) {
      EXPECT_LE(Distance(trained.states.at(path), expected.at(path)),
                BoundOfTensor(parity, arithmetic, kind + path, kinds))
          << path;
    }
  }
}

void ExpectSameLossesInBf16(const ParityCase& parity,
                            const std::vector<std::vector<double>>& losses) {
  const std::vector<double>& expected = parity.state.values("rotated/losses");  // [runs, steps]
  ASSERT_EQ(losses.size(), parity.FirstBatches().size());
  double sum = 0;
  for (size_t run = 0; run < losses.size(); ++run) {
    const auto first = expected.begin() + static_cast<int64_t>(run * losses[run].size());
    sum += Distance(losses[run], {first, first + static_cast<int64_t>(losses[run].size())});
  }
  EXPECT_LE(sum / static_cast<double>(losses.size()),
            parity.Bound(Arithmetic::kBf16, "rotated/losses"));
}

}  // namespace tessera
