#include "core/plan/testing/transformer.h"

#include "absl/strings/str_cat.h"
#include "core/status/check.h"

namespace tessera {
namespace {

const Initializer kNormal = Initializer::Normal(0, 0.02);
const Initializer kZero = Initializer::Constant(0);

class Recorder {
 public:
  Recorder(Graph& graph, const TransformerSizes& sizes, bool training)
      : graph_(graph), sizes_(sizes), training_(training) {}

  Tensor Loss() {
    const TensorType type = {DType::kI32, {sizes_.batch, sizes_.sequence}};
    const Tensor tokens = graph_.Input("tokens", type, 0);
    const Tensor targets = graph_.Input("targets", type, 0);
    const int64_t channels = sizes_.channels();
    const Tensor wte = graph_.Parameter("wte.weight", {sizes_.vocabulary, channels}, kNormal);
    Tensor positions = graph_.Parameter("wpe.weight", {sizes_.context, channels}, kNormal);
    Tensor x;
    {
      Scope scope(&graph_, "embed");
      positions = Slice(positions, 0, 0, sizes_.sequence);
      x = MaybeDropout(Add(Embedding(wte, tokens), positions));
    }
    for (int64_t i = 0; i < sizes_.layers; ++i) {
      Scope block(&graph_, absl::StrCat("blocks.", i), Scope::kBlock);
      x = MlpPart(AttentionPart(x));
    }
    x = Norm("ln_f", x);
    Scope scope(&graph_, "loss");
    return LinearCrossEntropy(x, wte, targets).mean;
  }

 private:
  Tensor MaybeDropout(Tensor x) { return training_ ? Dropout(x, sizes_.dropout) : x; }

  Tensor Norm(absl::string_view name, Tensor x) {
    Scope scope(&graph_, name);
    const Tensor weight = graph_.Parameter("weight", {x.dim(-1)}, Initializer::Constant(1));
    const Tensor bias = graph_.Bias("bias", {x.dim(-1)});
    return LayerNorm(x, weight, bias, 1e-5);
  }

  Tensor Projection(absl::string_view name, Tensor x, int64_t outputs) {
    Scope scope(&graph_, name);
    const Tensor weight = graph_.Parameter("weight", {outputs, x.dim(-1)}, kNormal);
    const Tensor bias = graph_.Bias("bias", {outputs});
    return Linear(x, weight, bias);
  }

  Tensor AttentionPart(Tensor x) {
    const Tensor normed = Norm("ln1", x);
    Scope scope(&graph_, "attn");
    const int64_t heads = sizes_.heads, head_dim = sizes_.head_dim, channels = sizes_.channels();
    const int64_t batch = x.dim(0), sequence = x.dim(1);
    Tensor qkv;
    {
      Scope qkv_scope(&graph_, "qkv");
      const Tensor weight = graph_.Parameter("weight", {heads, 3, head_dim, channels}, kNormal);
      const Tensor bias = graph_.Bias("bias", {heads, 3, head_dim});
      qkv =
          Linear(normed, Reshape(weight, {3 * channels, channels}), Reshape(bias, {3 * channels}));
    }
    std::vector<Tensor> parts =
        Split(Reshape(qkv, {batch, sequence, heads, 3, head_dim}), 3, {1, 1, 1});
    for (Tensor& part : parts) part = Reshape(part, {batch, sequence, heads, head_dim});
    const Tensor attended = Attention(parts[0], parts[1], parts[2], /*causal=*/true);
    const Tensor joined = Reshape(attended, {batch, sequence, channels});
    return Add(x, MaybeDropout(Projection("proj", joined, channels)));
  }

  Tensor MlpPart(Tensor x) {
    const Tensor normed = Norm("ln2", x);
    Scope scope(&graph_, "mlp");
    const Tensor wide = Gelu(Projection("fc", normed, 4 * sizes_.channels()), GeluKind::kTanh);
    return Add(x, MaybeDropout(Projection("proj", wide, sizes_.channels())));
  }

  Graph& graph_;
  const TransformerSizes& sizes_;
  const bool training_;
};

void RecordUpdate(Graph& graph, const TransformerSizes& sizes, const State& parameter,
                  Tensor gradient, Tensor lr, Tensor scale, Tensor step, Tensor finite) {
  Scope scope(&graph, parameter.path);
  const Tensor value = graph.tensor(parameter.input);
  if (!sizes.adamw) {
    const SgdResult result = SgdUpdate(value, gradient, {}, lr, scale, finite, {});
    graph.SetState(parameter.path, result.parameter);
    return;
  }
  const Tensor m = graph.DeclareState("adam_m", parameter.type, Role::kOptimizerState, kZero);
  const Tensor v = graph.DeclareState("adam_v", parameter.type, Role::kOptimizerState, kZero);
  const AdamwResult result = AdamwUpdate(value, gradient, m, v, lr, scale, step, finite, {});
  graph.SetState(parameter.path, result.parameter);
  graph.SetState(absl::StrCat(parameter.path, ".adam_m"), result.m);
  graph.SetState(absl::StrCat(parameter.path, ".adam_v"), result.v);
}

}  // namespace

Graph RecordTransformerLoss(const TransformerSizes& sizes) {
  Graph graph("evaluate");
  graph.SetOutput("loss", Recorder(graph, sizes, /*training=*/false).Loss());
  TESSERA_CHECK(graph.status().ok()) << graph.status();
  return graph;
}

Graph RecordTransformerTraining(const TransformerSizes& sizes) {
  Graph graph("train");
  const Tensor loss = Recorder(graph, sizes, /*training=*/true).Loss();
  std::vector<State> parameters;
  std::vector<Tensor> targets;
  for (const State& state : graph.states()) {
    parameters.push_back(state);
    targets.push_back(graph.tensor(state.input));
  }
  TESSERA_CHECK(graph.status().ok()) << graph.status();
  const auto gradients = RecordGradients(graph, loss, targets);
  TESSERA_CHECK(gradients.ok()) << gradients.status();
  graph.set_phase(Phase::kUpdate);
  const Tensor lr = graph.Input("lr", {DType::kF32, {}});
  const Tensor step = graph.Input("count", {DType::kI64, {}});
  Tensor squares, scale, finite;
  {
    Scope scope(&graph, "update");
    for (const Tensor& gradient : *gradients) {
      const Tensor square = SumSquares(gradient);
      squares = squares.valid() ? Add(squares, square) : square;
    }
    const Tensor norm = Sqrt(squares);
    scale = Minimum(Reciprocal(norm), Fill(graph, {DType::kF32, {}}, 1));
    finite = AllFinite({loss, norm});
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    RecordUpdate(graph, sizes, parameters[i], (*gradients)[i], lr, scale, step, finite);
  }
  graph.SetOutput("loss", loss);
  TESSERA_CHECK(graph.status().ok()) << graph.status();
  return graph;
}

Graph RecordTransformerState(const Graph& train) {
  Graph graph("initialise");
  for (const State& state : train.states()) {
    Scope scope(&graph, state.path);
    const bool normal = state.initializer.kind == Initializer::Kind::kNormal;
    graph.WriteState(state, normal ? RandomNormal(graph, state.type, 0, 0.02, state.path)
                                   : Fill(graph, state.type, state.initializer.value));
  }
  TESSERA_CHECK(graph.status().ok()) << graph.status();
  return graph;
}

}  // namespace tessera
