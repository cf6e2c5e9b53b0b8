// A small model, and a configuration for it.
#ifndef TESSERA_CORE_TRAIN_TESTING_BIGRAM_H_
#define TESSERA_CORE_TRAIN_TESTING_BIGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/language_model.h"
#include "core/ops/ops.h"
#include "core/train/config/run_config.pb.h"

namespace tessera {

// Predicts each token from the previous token alone, by a table of embeddings and a linear layer.
class BigramModel : public LanguageModel {
 public:
  static constexpr int64_t kVocabulary = 11;

  explicit BigramModel(int64_t channels = 4, bool reads_position = false)
      : channels_(channels), reads_position_(reads_position) {}

  int64_t vocabulary() const override { return kVocabulary; }
  int64_t max_sequence() const override { return 4; }

  RecordedLoss RecordLoss(Graph& graph, int64_t batch, int64_t sequence,
                          bool training) const override {
    const TensorType type = {DType::kI32, {batch, sequence}};
    const Tensor tokens = graph.Input("tokens", type, 0);
    const Tensor targets = graph.Input("targets", type, 0);
    Tensor x = Embed(graph, tokens);
    if (training) x = Dropout(x, 0.1);
    const Tensor head = Head(graph);
    RecordedLoss recorded = LinearCrossEntropy(x, head, targets);
    if (training) return recorded;
    const Tensor logits = Linear(x, head);
    recorded.metrics.push_back({"accuracy", TopKCorrect(logits, targets, 1)});
    return recorded;
  }
  std::vector<std::string> Metrics() const override { return {"accuracy"}; }
  Tensor RecordLogits(Graph& graph, int64_t batch, int64_t sequence) const override {
    const Tensor tokens = graph.Input("tokens", {DType::kI32, {batch, sequence}}, 0);
    return Linear(Embed(graph, tokens), Head(graph));
  }
  Tensor RecordNextToken(Graph& graph, int64_t length) const override {
    const Tensor token = graph.Input("token", {DType::kI32, {1}});
    const Tensor position = graph.Input("position", {DType::kI64, {}});
    Tensor logits = Reshape(Linear(Embed(graph, token), Head(graph)), {kVocabulary});
    if (!reads_position_) return logits;
    // Returns the position as the last token's logit, so that a test can see it.
    const Tensor last = Reshape(Cast(position, DType::kF32), {1});
    return Concat({Slice(logits, 0, 0, kVocabulary - 1), last}, 0);
  }

 private:
  Tensor Embed(Graph& graph, Tensor tokens) const {
    return Embedding(
        graph.Parameter("table", {kVocabulary, channels_}, Initializer::Normal(0, 0.5)), tokens);
  }
  Tensor Head(Graph& graph) const {
    return graph.Parameter("head", {kVocabulary, channels_}, Initializer::Normal(0, 0.5));
  }

  int64_t channels_;
  bool reads_position_;
};

inline RunConfig BigramConfig() {
  RunConfig config;
  config.set_steps(20);
  config.set_batch(3);
  config.set_sequence(4);
  config.set_micro_batches(1);
  config.set_seed(5);
  config.set_keep_checkpoints(2);
  config.mutable_sample()->set_tokens(5);
  OptimizerConfig& optimizer = *config.mutable_optimizer();
  optimizer.set_kind("adamw");
  optimizer.set_lr(0.05);
  optimizer.set_schedule("cosine");
  optimizer.set_warmup_steps(3);
  optimizer.set_beta1(0.9);
  optimizer.set_beta2(0.95);
  optimizer.set_eps(1e-8);
  optimizer.set_clip_norm(1);
  return config;
}

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_TESTING_BIGRAM_H_
