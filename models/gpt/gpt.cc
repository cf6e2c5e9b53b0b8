#include "models/gpt/gpt.h"

#include <cmath>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "models/config/check_fields.h"

namespace tessera {
namespace {

constexpr double kWeightStddev = 0.02;
constexpr double kDefaultEps = 1e-5;

class Gpt final : public LanguageModel {
 public:
  explicit Gpt(const GptConfig& config)
      : config_(config),
        channels_(config.channels()),
        heads_(config.heads()),
        head_dim_(config.channels() / config.heads()),
        eps_(config.layer_norm_eps() == 0 ? kDefaultEps : config.layer_norm_eps()),
        gelu_(config.gelu() == "erf" ? GeluKind::kErf : GeluKind::kTanh) {}

  int64_t vocabulary() const override { return config_.vocabulary(); }
  int64_t max_sequence() const override { return config_.context(); }

  RecordedLoss RecordLoss(Graph& graph, int64_t batch, int64_t sequence,
                          bool training) const override {
    if (!CheckSizes(graph, batch, sequence)) return {};
    const TensorType type = {DType::kI32, {batch, sequence}};
    const Tensor tokens = graph.Input("tokens", type, 0);
    const Tensor targets = graph.Input("targets", type, 0);
    const Tensor hidden = Hidden(graph, tokens, training);
    const Tensor head = HeadWeight(graph);
    Scope scope(&graph, "loss");
    return LinearCrossEntropy(hidden, head, targets);
  }

  Tensor RecordLogits(Graph& graph, int64_t batch, int64_t sequence) const override {
    if (!CheckSizes(graph, batch, sequence)) return {};
    const Tensor tokens = graph.Input("tokens", {DType::kI32, {batch, sequence}}, 0);
    return Logits(graph, Hidden(graph, tokens, /*training=*/false));
  }

  Tensor RecordNextToken(Graph& graph, int64_t length) const override;

  int64_t state_version() const override { return 2; }
  // Version 1 had qkv's weight as [3, heads, head_dim, C] and its bias as [3, heads, head_dim].
  std::vector<FormerOrder> FormerOrders(int64_t version) const override;

 private:
  // Records an attention over q, k, v [batch, seq, heads, head_dim] in the block's scope.
  using Attend = std::function<Tensor(Tensor q, Tensor k, Tensor v)>;

  // Fails the Graph for sizes that the model cannot have. Returns whether the Graph is still valid.
  bool CheckSizes(Graph& graph, int64_t batch, int64_t sequence) const {
    if (sequence < 1 || sequence > config_.context()) {
      graph.Fail(absl::InvalidArgumentError(absl::StrCat(
          "sequence: ", sequence, " tokens, but model.context is ", config_.context())));
    } else if (batch < 1) {
      graph.Fail(absl::InvalidArgumentError(absl::StrCat("batch: ", batch, " is not positive")));
    }
    return graph.status().ok();
  }

  Tensor TokenWeight(Graph& graph) const {
    return graph.Parameter("wte.weight", {config_.vocabulary(), channels_},
                           Initializer::Normal(0, kWeightStddev));
  }
  Tensor PositionWeight(Graph& graph) const {
    return graph.Parameter("wpe.weight", {config_.context(), channels_},
                           Initializer::Normal(0, kWeightStddev));
  }
  Tensor HeadWeight(Graph& graph) const {
    if (!config_.untied_head()) return TokenWeight(graph);
    return graph.Parameter("head.weight", {config_.vocabulary(), channels_},
                           Initializer::Normal(0, kWeightStddev));
  }

  // The functions below that return a Tensor record a part of the model, and return its output.
  Tensor Hidden(Graph& graph, Tensor tokens, bool training) const;
  Tensor Blocks(Graph& graph, Tensor x, bool training, const Attend& attend) const;
  Tensor AttentionHalf(Graph& graph, Tensor x, bool training, const Attend& attend) const;
  Tensor MlpHalf(Graph& graph, Tensor x, bool training) const;
  Tensor Norm(Graph& graph, absl::string_view name, Tensor x) const;
  Tensor Projection(Graph& graph, absl::string_view name, Tensor x, int64_t outputs,
                    double stddev) const;
  Tensor MaybeDropout(Tensor x, bool training) const {
    return training && config_.dropout() > 0 ? Dropout(x, config_.dropout()) : x;
  }
  Tensor Logits(Graph& graph, Tensor hidden) const {
    const Tensor weight = HeadWeight(graph);
    Scope scope(&graph, "head");
    return Linear(hidden, weight);
  }
  // As in GPT-2, the standard deviation is divided by the square root of the number of additions to
  // the residual stream.
  double ResidualStddev() const {
    return kWeightStddev / std::sqrt(2.0 * static_cast<double>(config_.layers()));
  }

  const GptConfig config_;
  const int64_t channels_;
  const int64_t heads_;
  const int64_t head_dim_;
  const double eps_;
  const GeluKind gelu_;
};

// Returns the output of ln_f: [batch, sequence, C].
Tensor Gpt::Hidden(Graph& graph, Tensor tokens, bool training) const {
  const int64_t sequence = tokens.dim(1);
  const Tensor token_weight = TokenWeight(graph);
  Tensor positions = PositionWeight(graph);
  Tensor x;
  {
    Scope scope(&graph, "embed");
    if (sequence < config_.context()) positions = Slice(positions, 0, 0, sequence);
    x = MaybeDropout(Add(Embedding(token_weight, tokens), positions), training);
  }
  return Blocks(graph, x, training,
                [](Tensor q, Tensor k, Tensor v) { return Attention(q, k, v, /*causal=*/true); });
}

Tensor Gpt::RecordNextToken(Graph& graph, int64_t length) const {
  if (!CheckSizes(graph, 1, length)) return {};
  const Tensor token = graph.Input("token", {DType::kI32, {1}});
  const Tensor position = graph.Input("position", {DType::kI64, {}});
  const Tensor token_weight = TokenWeight(graph);
  const Tensor position_weight = PositionWeight(graph);
  Tensor x;
  {
    Scope scope(&graph, "embed");
    x = Embedding(token_weight, token);  // [1, C]
    const Tensor row = Reshape(Cast(position, DType::kI32), {1});
    x = Add(x, Embedding(position_weight, row));
    x = Reshape(x, {1, 1, channels_});
  }
  const auto attend = [&](Tensor q, Tensor k, Tensor v) {
    const TensorType cache = {DType::kF32, {1, length, heads_, head_dim_}};
    const Tensor k_cache =
        graph.DeclareState("k_cache", cache, Role::kCache, Initializer::Constant(0));
    const Tensor v_cache =
        graph.DeclareState("v_cache", cache, Role::kCache, Initializer::Constant(0));
    const DecodedAttention decoded = AttentionDecode(q, k, v, k_cache, v_cache, position);
    graph.SetState(graph.value(k_cache.id()).path, decoded.k_cache);
    graph.SetState(graph.value(v_cache.id()).path, decoded.v_cache);
    return decoded.output;
  };
  const Tensor logits = Logits(graph, Blocks(graph, x, /*training=*/false, attend));
  Scope scope(&graph, "head");
  return Reshape(logits, {config_.vocabulary()});
}

std::vector<FormerOrder> Gpt::FormerOrders(int64_t version) const {
  std::vector<FormerOrder> orders;
  for (int64_t i = 0; version < 2 && i < config_.layers(); ++i) {
    const std::string qkv = absl::StrCat("blocks.", i, ".attn.qkv.");
    orders.push_back({qkv + "weight", {1, 0, 2, 3}});
    orders.push_back({qkv + "bias", {1, 0, 2}});
  }
  return orders;
}

Tensor Gpt::Blocks(Graph& graph, Tensor x, bool training, const Attend& attend) const {
  for (int64_t i = 0; i < config_.layers(); ++i) {
    Scope block(&graph, absl::StrCat("blocks.", i), Scope::kBlock);
    x = AttentionHalf(graph, x, training, attend);
    x = MlpHalf(graph, x, training);
  }
  return Norm(graph, "ln_f", x);
}

// x + proj(attention(ln1(x))), x [batch, seq, C]
Tensor Gpt::AttentionHalf(Graph& graph, Tensor x, bool training, const Attend& attend) const {
  const Tensor normed = Norm(graph, "ln1", x);
  Scope scope(&graph, "attn");
  Tensor qkv;  // [batch, seq, heads, 3, head_dim]
  {
    // The heads come first, so that a split by heads reaches the attention without communication.
    Scope qkv_scope(&graph, "qkv");
    Tensor weight = graph.Parameter("weight", {heads_, 3, head_dim_, channels_},
                                    Initializer::Normal(0, kWeightStddev));
    Tensor bias = graph.Bias("bias", {heads_, 3, head_dim_});
    weight = Reshape(weight, {3 * channels_, channels_});
    bias = Reshape(bias, {3 * channels_});
    qkv = Reshape(Linear(normed, weight, bias), {x.dim(0), x.dim(1), heads_, 3, head_dim_});
  }
  const std::vector<Tensor> splits = Split(qkv, 3, {1, 1, 1});
  const auto by_head = [&](Tensor split) {
    return Reshape(split, {x.dim(0), x.dim(1), heads_, head_dim_});
  };
  const Tensor q = by_head(splits[0]), k = by_head(splits[1]), v = by_head(splits[2]);
  const Tensor attended = Reshape(attend(q, k, v), {x.dim(0), x.dim(1), channels_});
  const Tensor projected = Projection(graph, "proj", attended, channels_, ResidualStddev());
  return Add(x, MaybeDropout(projected, training));
}

// x + proj(gelu(fc(ln2(x))))
Tensor Gpt::MlpHalf(Graph& graph, Tensor x, bool training) const {
  const Tensor normed = Norm(graph, "ln2", x);
  Scope scope(&graph, "mlp");
  const Tensor wide = Gelu(Projection(graph, "fc", normed, 4 * channels_, kWeightStddev), gelu_);
  const Tensor projected = Projection(graph, "proj", wide, channels_, ResidualStddev());
  return Add(x, MaybeDropout(projected, training));
}

Tensor Gpt::Norm(Graph& graph, absl::string_view name, Tensor x) const {
  Scope scope(&graph, name);
  const Tensor weight = graph.Parameter("weight", {channels_}, Initializer::Constant(1));
  const Tensor bias = graph.Bias("bias", {channels_});
  return LayerNorm(x, weight, bias, eps_);
}

Tensor Gpt::Projection(Graph& graph, absl::string_view name, Tensor x, int64_t outputs,
                       double stddev) const {
  Scope scope(&graph, name);
  const Tensor weight =
      graph.Parameter("weight", {outputs, x.dim(-1)}, Initializer::Normal(0, stddev));
  const Tensor bias = graph.Bias("bias", {outputs});
  return Linear(x, weight, bias);
}

absl::Status CheckConfig(const GptConfig& config) {
  RETURN_IF_ERROR(CheckSize("layers", config.layers(), 1, 100'000));
  RETURN_IF_ERROR(CheckSize("heads", config.heads(), 1, 1 << 20));
  RETURN_IF_ERROR(CheckSize("channels", config.channels(), 1, 1 << 20));
  RETURN_IF_ERROR(CheckSize("vocabulary", config.vocabulary(), 1, 1 << 30));
  RETURN_IF_ERROR(CheckSize("context", config.context(), 1, 1 << 30));
  if (config.channels() % config.heads() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.heads: ", config.heads(), " heads do not divide ", config.channels(), " channels"));
  }
  if (!config.gelu().empty() && config.gelu() != "tanh" && config.gelu() != "erf") {
    return absl::InvalidArgumentError(
        absl::StrCat("model.gelu: \"", config.gelu(), "\" is neither \"tanh\" nor \"erf\""));
  }
  RETURN_IF_ERROR(CheckFraction("dropout", config.dropout()));
  return CheckFraction("layer_norm_eps", config.layer_norm_eps());
}

absl::StatusOr<std::unique_ptr<Model>> CreateFromMessage(const google::protobuf::Message& config) {
  TESSERA_CHECK(config.GetDescriptor() == GptConfig::descriptor()) << config.GetTypeName();
  return CreateGpt(static_cast<const GptConfig&>(config));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LanguageModel>> CreateGpt(const GptConfig& config) {
  RETURN_IF_ERROR(CheckConfig(config));
  return std::unique_ptr<LanguageModel>(new Gpt(config));
}

const ModelDefinition& GptDefinition() {
  static const GptConfig* const default_config = [] {
    auto* const config = new GptConfig;
    config->set_gelu("tanh");
    config->set_layer_norm_eps(kDefaultEps);
    return config;
  }();
  static const ModelDefinition* const definition =
      new ModelDefinition{"gpt", default_config, GptPresets(), CreateFromMessage, "model.layers=6"};
  return *definition;
}

}  // namespace tessera
