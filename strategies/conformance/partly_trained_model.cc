#include "strategies/conformance/partly_trained_model.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/model/language_model.h"

namespace tessera {
namespace {

constexpr int64_t kVocabulary = 23, kChannels = 10, kBlocks = 2;

class PartlyTrainedModel final : public LanguageModel {
 public:
  int64_t vocabulary() const override { return kVocabulary; }
  int64_t max_sequence() const override { return 64; }

  RecordedLoss RecordLoss(Graph& graph, int64_t batch, int64_t sequence,
                          bool /*training*/) const override {
    const TensorType type = {DType::kI32, {batch, sequence}};
    const Tensor tokens = graph.Input("tokens", type, 0);
    const Tensor targets = graph.Input("targets", type, 0);
    const Tensor table =
        graph.Parameter("embed.weight", {kVocabulary, kChannels}, Initializer::Normal(0, 0.5));
    Tensor x = Add(Embedding(table, tokens),
                   Embedding(Frozen(graph, "frozen.weight", {kVocabulary, kChannels}), tokens));
    for (int64_t block = 0; block < kBlocks; ++block) x = RecordBlock(graph, block, x);
    Scope scope(&graph, "loss");
    return LinearCrossEntropy(x, table, targets);
  }

  Tensor RecordLogits(Graph& graph, int64_t /*batch*/, int64_t /*sequence*/) const override {
    graph.Fail(absl::UnimplementedError("this model is only trained"));
    return {};
  }
  Tensor RecordNextToken(Graph& graph, int64_t length) const override {
    return RecordLogits(graph, 1, length);
  }

 private:
  static Tensor Frozen(Graph& graph, absl::string_view name, const Shape& shape) {
    return graph.DeclareState(name, {DType::kF32, shape}, Role::kParameter,
                              Initializer::Normal(0, 0.5), /*trainable=*/false);
  }

  static Tensor RecordBlock(Graph& graph, int64_t block, Tensor x) {
    Scope scope(&graph, absl::StrCat("blocks.", block), Scope::kBlock);
    const Shape shape = {kChannels, kChannels};
    const Tensor weight = block == 0
                              ? Frozen(graph, "weight", shape)
                              : graph.Parameter("weight", shape, Initializer::Normal(0, 0.5));
    if (block > 0) graph.Parameter("unused", {7}, Initializer::Constant(1));
    return Gelu(Linear(x, weight, graph.Bias("bias", {kChannels})), GeluKind::kTanh);
  }
};

}  // namespace

std::unique_ptr<Model> MakePartlyTrainedModel() { return std::make_unique<PartlyTrainedModel>(); }

}  // namespace tessera
