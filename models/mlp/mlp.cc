#include "models/mlp/mlp.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "models/config/check_fields.h"
#include "models/layers/dense_layers.h"

namespace tessera {
namespace {

class Mlp final : public LanguageModel {
 public:
  explicit Mlp(const MlpConfig& config) : config_(config) {}

  int64_t vocabulary() const override { return config_.vocabulary(); }
  int64_t max_sequence() const override { return config_.window(); }

  // Reads only the targets after the window.
  RecordedLoss RecordLoss(Graph& graph, int64_t batch, int64_t sequence,
                          bool training) const override {
    if (!CheckSizes(graph, batch, sequence)) return {};
    const TensorType type = {DType::kI32, {batch, sequence}};
    const Tensor tokens = graph.Input("tokens", type, 0);
    const Tensor targets = graph.Input("targets", type, 0);
    const Tensor hidden = Hidden(graph, tokens);
    const Tensor weight = HeadWeight(graph, hidden.dim(-1));
    Scope scope(&graph, "loss");
    const Tensor next = Reshape(Slice(targets, 1, sequence - 1, 1), {batch});
    return LinearCrossEntropy(hidden, weight, next);
  }

  Tensor RecordLogits(Graph& graph, int64_t batch, int64_t sequence) const override {
    if (!CheckSizes(graph, batch, sequence)) return {};
    return Logits(graph, graph.Input("tokens", {DType::kI32, {batch, sequence}}, 0));
  }

  // The window is a cache that is initially zero. Once it is full, predictions are those of
  // training. Reads neither `length` nor "position".
  Tensor RecordNextToken(Graph& graph, int64_t length) const override {
    const int64_t width = config_.window();
    const Tensor token = graph.Input("token", {DType::kI32, {1}});
    graph.Input("position", {DType::kI64, {}});
    const Tensor kept = graph.DeclareState("window", {DType::kI32, {1, width}}, Role::kCache,
                                           Initializer::Constant(0));
    Tensor window;
    {
      Scope scope(&graph, "shift");
      window = Reshape(token, {1, 1});
      if (width > 1) window = Concat({Slice(kept, 1, 1, width - 1), window}, 1);
    }
    graph.SetState("window", window);
    const Tensor logits = Logits(graph, window);
    Scope scope(&graph, "head");
    return Reshape(logits, {config_.vocabulary()});
  }

 private:
  // Fails the Graph for sizes that the model cannot have. Returns whether the Graph is still valid.
  bool CheckSizes(Graph& graph, int64_t batch, int64_t sequence) const {
    if (sequence != config_.window()) {
      graph.Fail(absl::InvalidArgumentError(
          absl::StrCat("sequence: ", sequence, " tokens, but model.window is ", config_.window(),
                       "; the two must be equal")));
    } else if (batch < 1) {
      graph.Fail(absl::InvalidArgumentError(absl::StrCat("batch: ", batch, " is not positive")));
    }
    return graph.status().ok();
  }

  Tensor HeadWeight(Graph& graph, int64_t inputs) const {
    return graph.Parameter("head.weight", {config_.vocabulary(), inputs},
                           Initializer::Normal(0, 0.02));
  }

  Tensor Logits(Graph& graph, Tensor tokens) const {
    const Tensor hidden = Hidden(graph, tokens);
    const Tensor weight = HeadWeight(graph, hidden.dim(-1));
    Scope scope(&graph, "head");
    return Linear(hidden, weight);
  }

  // tokens [batch, window] -> [batch, units of the last layer]
  Tensor Hidden(Graph& graph, Tensor tokens) const {
    Tensor x;
    {
      Scope scope(&graph, "embed");
      const Tensor weight = graph.Parameter("weight", {config_.vocabulary(), config_.channels()},
                                            Initializer::Normal(0, 1));
      x = Reshape(Embedding(weight, tokens),
                  {tokens.dim(0), config_.window() * config_.channels()});
    }
    return DenseLayers(graph, x, config_.hidden(), {.activation = config_.activation()});
  }

  const MlpConfig config_;
};

absl::Status CheckConfig(const MlpConfig& config) {
  RETURN_IF_ERROR(CheckSize("window", config.window(), 1, 1 << 16));
  RETURN_IF_ERROR(CheckSize("channels", config.channels(), 1, 1 << 16));
  RETURN_IF_ERROR(CheckSize("vocabulary", config.vocabulary(), 1, 1 << 26));
  for (int64_t units : config.hidden()) RETURN_IF_ERROR(CheckSize("hidden", units, 1, 1 << 20));
  return CheckActivation(config.activation());
}

absl::StatusOr<std::unique_ptr<Model>> CreateFromMessage(const google::protobuf::Message& config) {
  TESSERA_CHECK(config.GetDescriptor() == MlpConfig::descriptor()) << config.GetTypeName();
  return CreateMlp(static_cast<const MlpConfig&>(config));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LanguageModel>> CreateMlp(const MlpConfig& config) {
  RETURN_IF_ERROR(CheckConfig(config));
  return std::unique_ptr<LanguageModel>(new Mlp(config));
}

const ModelDefinition& MlpDefinition() {
  static const ModelDefinition* const definition = new ModelDefinition{
      "mlp", &MlpConfig::default_instance(), MlpPresets(), CreateFromMessage, "model.channels=64"};
  return *definition;
}

}  // namespace tessera
