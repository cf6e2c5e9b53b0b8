#include "models/vgg/vgg.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "models/config/check_fields.h"
#include "models/pictures/picture_classifier.h"

namespace tessera {
namespace {

constexpr int64_t kWindow = 3;  // of a convolution

class Vgg final : public PictureClassifier {
 public:
  explicit Vgg(const VggConfig& config)
      : PictureClassifier(PictureTaskOf(config)), config_(config) {}

 private:
  static constexpr double kHeadStddev = 0.01;  // as torchvision's

  Tensor RecordLogits(Graph& graph, Tensor pictures, Tensor labels) const override {
    const bool training = labels.valid();
    Tensor valid;
    if (config_.batch_norm() && training) {
      Scope scope(&graph, "normalize");
      valid = ValidMask(labels);
    }
    return Logits(graph, Hidden(graph, Features(graph, pictures, valid), training));
  }

  // The functions below record a part of the model, and return its output.

  // The initial values of He et al. 2015, by fan-out.
  static Initializer HeNormal(int64_t fan_out) {
    return Initializer::Normal(0, std::sqrt(2 / static_cast<double>(fan_out)));
  }

  // Records convolution(x) + bias.
  static Tensor Convolution(Graph& graph, Tensor x, int64_t out, int64_t height, int64_t width,
                            int64_t padding, const Initializer& initial) {
    const Tensor weight = graph.Parameter("weight", {out, height, width, x.dim(3)}, initial);
    const Tensor bias = graph.Bias("bias", {out});
    return Conv2d(x, weight, bias, {.padding = {padding, padding}});
  }

  // Records batch norm(convolution(x)). `valid` [batch] says which pictures count in the
  // statistics of training; it is an invalid handle in evaluation.
  Tensor NormalizedConvolution(Graph& graph, Tensor x, int64_t channels, Tensor valid) const {
    const Tensor weight = graph.Parameter("weight", {channels, kWindow, kWindow, x.dim(3)},
                                          HeNormal(kWindow * kWindow * channels));
    constexpr int64_t kPadding = kWindow / 2;
    return BatchNormalized(graph, Conv2d(x, weight, {}, {.padding = {kPadding, kPadding}}), valid);
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

  // Returns whether layer `i` is a pool. One that would leave nothing of x is left out.
  bool IsPool(int i, Tensor x) const {
    return i < config_.layers_size() && config_.layers(i) == 0 && x.dim(1) > 1 && x.dim(2) > 1;
  }

  // [batch, height, width, channels] -> [batch, height', width', channels']
  Tensor Features(Graph& graph, Tensor x, Tensor valid) const {
    int convolution = 0;
    for (int i = 0; i < config_.layers_size(); ++i) {
      const int64_t channels = config_.layers(i);
      if (channels == 0) {
        Scope scope(&graph, absl::StrCat("pool.", convolution));
        if (IsPool(i, x)) x = MaxPool(x, {});
        continue;
      }
      Scope block(&graph, absl::StrCat("features.", convolution++), Scope::kBlock);
      x = config_.batch_norm() ? NormalizedConvolution(graph, x, channels, valid)
                               : Convolution(graph, x, channels, kWindow, kWindow, kWindow / 2,
                                             HeNormal(kWindow * kWindow * channels));
      // relu(max(x)) = max(relu(x)), bit for bit, also in the gradient. But the gradient of relu
      // needs relu's result, which is smaller behind the pool, and that of the pool its index
      // alone.
      if (IsPool(i + 1, x)) {
        x = MaxPool(x, {});
        ++i;
      }
      x = Relu(x);
    }
    return x;
  }

  // -> [batch, units of the last hidden layer]
  Tensor Hidden(Graph& graph, Tensor x, bool training) const {
    for (int i = 0; i < config_.hidden_size(); ++i) {
      Scope block(&graph, absl::StrCat("hidden.", i), Scope::kBlock);
      const int64_t units = config_.hidden(i);
      if (i == 0) {
        x = Relu(Convolution(graph, x, units, x.dim(1), x.dim(2), 0, HeNormal(units)));
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

absl::Status CheckConfig(const VggConfig& config) {
  RETURN_IF_ERROR(CheckPictureTask(PictureTaskOf(config)));
  for (int64_t channels : config.layers()) {
    RETURN_IF_ERROR(CheckSize("layers", channels, 0, 1 << 14));
  }
  for (int64_t units : config.hidden()) RETURN_IF_ERROR(CheckSize("hidden", units, 1, 1 << 20));
  RETURN_IF_ERROR(CheckSize("batch_norm_groups", config.batch_norm_groups(), 0, 1 << 20));
  if (config.batch_norm_groups() > 0 && !config.batch_norm()) {
    return absl::InvalidArgumentError(
        "model.batch_norm_groups: the model has no batch norm; set model.batch_norm to true");
  }
  return CheckFraction("dropout", config.dropout());
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
