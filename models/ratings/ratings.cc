#include "models/ratings/ratings.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class Ratings final : public Model {
 public:
  explicit Ratings(const RatingsConfig& config) : config_(config) {}

  std::vector<BatchField> BatchFields(int64_t /*sequence*/) const override {
    const TensorType number = {DType::kI32, {}};
    return {{"user", number, config_.users(), 0, "model.users"},
            {"item", number, config_.items(), 0, "model.items"},
            {"stars", number, config_.stars(), kIgnoreIndex, "model.stars"}};
  }

  SampleUnit Unit(int64_t /*sequence*/) const override { return {"rating", "rating", 1}; }

  RecordedLoss RecordLoss(Graph& graph, int64_t batch, int64_t /*sequence*/,
                          bool training) const override {
    const TensorType numbers = {DType::kI32, {batch}};
    const Tensor user = graph.Input("user", numbers, 0);
    const Tensor item = graph.Input("item", numbers, 0);
    const Tensor stars = graph.Input("stars", numbers, 0);
    const Tensor of_user = Embedded(graph, "users", config_.users(), user);
    const Tensor of_item = Embedded(graph, "items", config_.items(), item);
    Tensor x = Concat({of_user, of_item}, 1);
    x = Relu(Layer(graph, "hidden", config_.hidden(), x));
    const Tensor logits = Layer(graph, "head", config_.stars(), x);
    Scope scope(&graph, "loss");
    RecordedLoss recorded = CrossEntropy(logits, stars);
    if (!training) recorded.metrics = {{"top2", TopKCorrect(logits, stars, 2)}};
    return recorded;
  }

  std::vector<std::string> Metrics() const override { return {"top2"}; }

 private:
  // ids [batch] -> [batch, channels]
  Tensor Embedded(Graph& graph, const std::string& name, int64_t rows, Tensor ids) const {
    Scope block(&graph, name, Scope::kBlock);
    return Embedding(
        graph.Parameter("weight", {rows, config_.channels()}, Initializer::Normal(0, 1)), ids);
  }

  // x [batch, inputs] -> [batch, units]
  static Tensor Layer(Graph& graph, const std::string& name, int64_t units, Tensor x) {
    Scope block(&graph, name, Scope::kBlock);
    const Tensor weight = graph.Parameter("weight", {units, x.dim(1)}, Initializer::Normal(0, 0.1));
    return Linear(x, weight, graph.Bias("bias", {units}));
  }

  const RatingsConfig config_;
};

absl::Status CheckSize(absl::string_view field, int64_t value, int64_t least) {
  constexpr int64_t kLargest = 1 << 26;
  if (value >= least && value <= kLargest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.", field, ": ", value, " is not from ", least, " to ", kLargest));
}

absl::StatusOr<std::unique_ptr<Model>> CreateFromMessage(const google::protobuf::Message& config) {
  return CreateRatings(static_cast<const RatingsConfig&>(config));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> CreateRatings(const RatingsConfig& config) {
  RETURN_IF_ERROR(CheckSize("users", config.users(), 1));
  RETURN_IF_ERROR(CheckSize("items", config.items(), 1));
  RETURN_IF_ERROR(CheckSize("channels", config.channels(), 1));
  RETURN_IF_ERROR(CheckSize("hidden", config.hidden(), 1));
  RETURN_IF_ERROR(CheckSize("stars", config.stars(), 2));
  return std::unique_ptr<Model>(new Ratings(config));
}

const ModelDefinition& RatingsDefinition() {
  static const ModelDefinition* const definition =
      new ModelDefinition{"ratings", &RatingsConfig::default_instance(), RatingsPresets(),
                          CreateFromMessage, "model.channels=64"};
  return *definition;
}

}  // namespace tessera
