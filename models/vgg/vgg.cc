#include "models/vgg/vgg.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

constexpr int64_t kWindow = 3;  // of a convolution
constexpr int64_t kTop = 5;

class Vgg final : public Model {
 public:
  explicit Vgg(const VggConfig& config) : config_(config) {}

  std::vector<BatchField> BatchFields(int64_t /*sequence*/) const override {
    return {
        {"pictures", {DType::kU8, {config_.height(), config_.width(), config_.channels()}}, 256},
        {"labels", {DType::kI32, {}}, config_.classes(), kIgnoreIndex, "model.classes"}};
  }

  SampleUnit Unit(int64_t /*sequence*/) const override { return {"picture", "picture", 1}; }

  RecordedLoss RecordLoss(Graph& graph, int64_t batch, int64_t /*sequence*/,
                          bool training) const override {
    if (batch < 1) {
      graph.Fail(absl::InvalidArgumentError(absl::StrCat("batch: ", batch, " is not positive")));
      return {};
    }
    Tensor x = Pictures(graph, batch);
    const Tensor labels = graph.Input("labels", {DType::kI32, {batch}}, 0);
    Tensor valid;
    if (config_.batch_norm() && training) {
      Scope scope(&graph, "normalize");
      valid = ValidMask(labels);
    }
    if (training) x = Augmented(graph, x);
    x = Hidden(graph, Features(graph, Normalized(graph, x), valid), training);
    const Tensor logits = Logits(graph, x);
    Scope scope(&graph, "loss");
    RecordedLoss recorded =
        CrossEntropy(logits, labels, {training ? config_.label_smoothing() : 0});
    if (training || !recorded.loss.mean.valid()) return recorded;
    recorded.output = logits;
    recorded.metrics.push_back({"accuracy", TopKCorrect(logits, labels, 1)});
    if (HasTop5()) recorded.metrics.push_back({"top5", TopKCorrect(logits, labels, kTop)});
    return recorded;
  }

  std::vector<std::string> Metrics() const override {
    if (HasTop5()) return {"accuracy", "top5"};
    return {"accuracy"};
  }

  std::vector<BatchField> PredictionFields(int64_t sequence) const override {
    return {BatchFields(sequence).front()};
  }

  Tensor RecordOutput(Graph& graph, int64_t batch, int64_t /*sequence*/) const override {
    const Tensor pictures = Normalized(graph, Pictures(graph, batch));
    const Tensor features = Features(graph, pictures, /*valid=*/{});
    return Logits(graph, Hidden(graph, features, /*training=*/false));
  }

  std::vector<Prediction> RecordPredictions(Tensor output) const override {
    const Tensor largest = TopK(output, HasTop5() ? kTop : 1);
    const Tensor first = Reshape(Slice(largest, 1, 0, 1), {output.dim(0)});
    const Tensor probabilities = Softmax(output, 1);
    std::vector<Prediction> predictions = {{"class", first},
                                           {"probability", ReduceMax(probabilities, {1})}};
    if (HasTop5()) predictions.push_back({"top5", largest});
    return predictions;
  }

 private:
  static constexpr double kHeadStddev = 0.01;  // as torchvision's

  bool HasTop5() const { return config_.classes() > kTop; }

  // The functions below record a part of the model, and return its output.

  Tensor Augmented(Graph& graph, Tensor pictures) const {
    if (config_.crop_padding() == 0 && !config_.flips()) return pictures;
    Scope scope(&graph, "augment");
    return RandomCropFlip(pictures, config_.crop_padding(), config_.flips());
  }

  Tensor Pictures(Graph& graph, int64_t batch) const {
    const Shape shape = {batch, config_.height(), config_.width(), config_.channels()};
    return graph.Input("pictures", {DType::kU8, shape}, 0);
  }

  // Bytes to numbers from -1 to 1.
  static Tensor Normalized(Graph& graph, Tensor pictures) {
    Scope scope(&graph, "normalize");
    return AddConstant(Scale(Cast(pictures, DType::kF32), 2.0 / 255), -1);
  }

  // The initial values of He et al. 2015, by fan-out.
  static Initializer HeNormal(int64_t fan_out) {
    return Initializer::Normal(0, std::sqrt(2 / static_cast<double>(fan_out)));
  }

  // Records relu(convolution(x) + bias).
  static Tensor Convolved(Graph& graph, Tensor x, int64_t out, int64_t height, int64_t width,
                          int64_t padding, const Initializer& initial) {
    const Tensor weight = graph.Parameter("weight", {out, height, width, x.dim(3)}, initial);
    const Tensor bias = graph.Bias("bias", {out});
    return Relu(Conv2d(x, weight, bias, {.padding = {padding, padding}}));
  }

  // Records relu(batch norm(convolution(x))). `valid` [batch] says which pictures count in the
  // statistics of training; it is an invalid handle in evaluation.
  Tensor NormalizedConvolution(Graph& graph, Tensor x, int64_t channels, Tensor valid) const {
    const Tensor weight = graph.Parameter("weight", {channels, kWindow, kWindow, x.dim(3)},
                                          HeNormal(kWindow * kWindow * channels));
    constexpr int64_t kPadding = kWindow / 2;
    return Relu(
        BatchNormalized(graph, Conv2d(x, weight, {}, {.padding = {kPadding, kPadding}}), valid));
  }

  Tensor BatchNormalized(Graph& graph, Tensor x, Tensor valid) const {
    Scope scope(&graph, "norm");
    const int64_t channels = x.dim(3);
    const Tensor weight = graph.Parameter("weight", {channels}, Initializer::Constant(1));
    const Tensor bias = graph.Bias("bias", {channels});
    const RunningMoments running = DeclareRunningMoments(graph, channels);
    RunningBatchNormOptions options;
    options.batch.groups = std::max<int64_t>(config_.batch_norm_groups(), 1);
    if (valid.valid()) return BatchNormUpdating(x, weight, bias, running, valid, options);
    return BatchNormWith(x, weight, bias, running.mean, running.variance, options.batch.eps);
  }

  // [batch, height, width, channels] -> [batch, height', width', channels']
  Tensor Features(Graph& graph, Tensor x, Tensor valid) const {
    int convolution = 0;
    for (int i = 0; i < config_.layers_size(); ++i) {
      const int64_t channels = config_.layers(i);
      if (channels == 0) {
        Scope scope(&graph, absl::StrCat("pool.", convolution));
        if (x.dim(1) > 1 && x.dim(2) > 1) x = MaxPool(x, {});
        continue;
      }
      Scope block(&graph, absl::StrCat("features.", convolution++), Scope::kBlock);
      x = config_.batch_norm() ? NormalizedConvolution(graph, x, channels, valid)
                               : Convolved(graph, x, channels, kWindow, kWindow, kWindow / 2,
                                           HeNormal(kWindow * kWindow * channels));
    }
    return x;
  }

  // -> [batch, units of the last hidden layer]
  Tensor Hidden(Graph& graph, Tensor x, bool training) const {
    for (int i = 0; i < config_.hidden_size(); ++i) {
      Scope block(&graph, absl::StrCat("hidden.", i), Scope::kBlock);
      const int64_t units = config_.hidden(i);
      if (i == 0) {
        x = Convolved(graph, x, units, x.dim(1), x.dim(2), 0, HeNormal(units));
        x = Reshape(x, {x.dim(0), units});
      } else {
        const Tensor weight = graph.Parameter("weight", {units, x.dim(1)}, HeNormal(units));
        x = Relu(Linear(x, weight, graph.Bias("bias", {units})));
      }
      if (training && config_.dropout() > 0) x = Dropout(x, config_.dropout());
    }
    if (x.rank() == 2) return x;
    Scope scope(&graph, "flatten");
    return Reshape(x, {x.dim(0), x.dim(1) * x.dim(2) * x.dim(3)});
  }

  // -> [batch, classes]
  Tensor Logits(Graph& graph, Tensor x) const {
    Scope scope(&graph, "head");
    const Tensor weight = graph.Parameter("weight", {config_.classes(), x.dim(1)},
                                          Initializer::Normal(0, kHeadStddev));
    return Linear(x, weight, graph.Bias("bias", {config_.classes()}));
  }

  const VggConfig config_;
};

// The bounds keep every product of sizes far below 2^63.
absl::Status CheckSize(absl::string_view field, int64_t value, int64_t least, int64_t largest) {
  if (value >= least && value <= largest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.", field, ": ", value, " is not from ", least, " to ", largest));
}

absl::Status CheckProbability(absl::string_view field, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.", field, ": ", value, " is not in [0, 1)"));
}

absl::Status CheckConfig(const VggConfig& config) {
  RETURN_IF_ERROR(CheckSize("height", config.height(), 1, 1 << 12));
  RETURN_IF_ERROR(CheckSize("width", config.width(), 1, 1 << 12));
  RETURN_IF_ERROR(CheckSize("channels", config.channels(), 1, 1 << 12));
  RETURN_IF_ERROR(CheckSize("classes", config.classes(), 2, 1 << 20));
  for (int64_t channels : config.layers()) {
    RETURN_IF_ERROR(CheckSize("layers", channels, 0, 1 << 14));
  }
  for (int64_t units : config.hidden()) RETURN_IF_ERROR(CheckSize("hidden", units, 1, 1 << 20));
  RETURN_IF_ERROR(CheckSize("batch_norm_groups", config.batch_norm_groups(), 0, 1 << 20));
  if (config.batch_norm_groups() > 0 && !config.batch_norm()) {
    return absl::InvalidArgumentError(
        "model.batch_norm_groups: the model has no batch norm; set model.batch_norm to true");
  }
  RETURN_IF_ERROR(CheckProbability("dropout", config.dropout()));
  RETURN_IF_ERROR(CheckProbability("label_smoothing", config.label_smoothing()));
  // So that a crop has at least one row and one column of the picture.
  const int64_t shorter = std::min(config.height(), config.width());
  return CheckSize("crop_padding", config.crop_padding(), 0, shorter - 1);
}

absl::StatusOr<std::unique_ptr<Model>> CreateFromMessage(const google::protobuf::Message& config) {
  TESSERA_CHECK(config.GetDescriptor() == VggConfig::descriptor()) << config.GetTypeName();
  return CreateVgg(static_cast<const VggConfig&>(config));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> CreateVgg(const VggConfig& config) {
  RETURN_IF_ERROR(CheckConfig(config));
  return std::unique_ptr<Model>(new Vgg(config));
}

const ModelDefinition& VggDefinition() {
  static const ModelDefinition* const definition = new ModelDefinition{
      "vgg", &VggConfig::default_instance(), VggPresets(), CreateFromMessage, "model.dropout=0.5"};
  return *definition;
}

}  // namespace tessera
