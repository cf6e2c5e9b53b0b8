#include "models/picture_mlp/picture_mlp.h"

#include "core/ops/ops.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "models/config/check_fields.h"
#include "models/layers/dense_layers.h"
#include "models/pictures/picture_classifier.h"

namespace tessera {
namespace {

class PictureMlp final : public PictureClassifier {
 public:
  explicit PictureMlp(const PictureMlpConfig& config)
      : PictureClassifier(PictureTaskOf(config)), config_(config) {}

 private:
  static constexpr double kHeadStddev = 0.01;

  Tensor RecordLogits(Graph& graph, Tensor pictures, Tensor labels) const override {
    Tensor x;
    {
      Scope scope(&graph, "flatten");
      const int64_t numbers = pictures.dim(1) * pictures.dim(2) * pictures.dim(3);
      x = Reshape(pictures, {pictures.dim(0), numbers});
    }
    const double dropout = labels.valid() ? config_.dropout() : 0;
    x = DenseLayers(graph, x, config_.hidden(),
                    {.activation = config_.activation(), .dropout = dropout});
    Scope scope(&graph, "head");
    const Tensor weight = graph.Parameter("weight", {config_.classes(), x.dim(1)},
                                          Initializer::Normal(0, kHeadStddev));
    return Linear(x, weight, graph.Bias("bias", {config_.classes()}));
  }

  const PictureMlpConfig config_;
};

absl::Status CheckConfig(const PictureMlpConfig& config) {
  RETURN_IF_ERROR(CheckPictureTask(PictureTaskOf(config)));
  for (const int64_t units : config.hidden()) {
    RETURN_IF_ERROR(CheckSize("hidden", units, 1, 1 << 20));
  }
  RETURN_IF_ERROR(CheckActivation(config.activation()));
  return CheckFraction("dropout", config.dropout());
}

absl::StatusOr<std::unique_ptr<Model>> CreateFromMessage(const google::protobuf::Message& config) {
  TESSERA_CHECK(config.GetDescriptor() == PictureMlpConfig::descriptor()) << config.GetTypeName();
  return CreatePictureMlp(static_cast<const PictureMlpConfig&>(config));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> CreatePictureMlp(const PictureMlpConfig& config) {
  RETURN_IF_ERROR(CheckConfig(config));
  return std::unique_ptr<Model>(new PictureMlp(config));
}

const ModelDefinition& PictureMlpDefinition() {
  static const ModelDefinition* const definition =
      new ModelDefinition{"picture_mlp", &PictureMlpConfig::default_instance(), PictureMlpPresets(),
                          CreateFromMessage, "model.hidden=[512,256]"};
  return *definition;
}

}  // namespace tessera
