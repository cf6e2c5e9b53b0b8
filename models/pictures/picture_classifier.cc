#include "models/pictures/picture_classifier.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "core/status/status_macros.h"
#include "models/config/check_fields.h"

namespace tessera {
namespace {

constexpr int64_t kTop = 5;

Tensor Pictures(Graph& graph, const PictureTask& task, int64_t batch) {
  const Shape shape = {batch, task.height, task.width, task.channels};
  return graph.Input("pictures", {DType::kU8, shape}, 0);
}

Tensor Augmented(Graph& graph, const PictureTask& task, Tensor pictures) {
  if (task.crop_padding == 0 && !task.flips) return pictures;
  Scope scope(&graph, "augment");
  return RandomCropFlip(pictures, task.crop_padding, task.flips);
}

// Bytes to numbers from -1 to 1.
Tensor Normalized(Graph& graph, Tensor pictures) {
  Scope scope(&graph, "normalize");
  return AddConstant(Scale(Cast(pictures, DType::kF32), 2.0 / 255), -1);
}

}  // namespace

absl::Status CheckPictureTask(const PictureTask& task) {
  RETURN_IF_ERROR(CheckSize("height", task.height, 1, 1 << 12));
  RETURN_IF_ERROR(CheckSize("width", task.width, 1, 1 << 12));
  RETURN_IF_ERROR(CheckSize("channels", task.channels, 1, 1 << 12));
  RETURN_IF_ERROR(CheckSize("classes", task.classes, 2, 1 << 20));
  RETURN_IF_ERROR(CheckFraction("label_smoothing", task.label_smoothing));
  // So that a crop has at least one row and one column of the picture.
  const int64_t shorter = std::min(task.height, task.width);
  return CheckSize("crop_padding", task.crop_padding, 0, shorter - 1);
}

std::vector<BatchField> PictureClassifier::BatchFields(int64_t /*sequence*/) const {
  return {{"pictures", {DType::kU8, {task_.height, task_.width, task_.channels}}, 256},
          {"labels", {DType::kI32, {}}, task_.classes, kIgnoreIndex, "model.classes"}};
}

SampleUnit PictureClassifier::Unit(int64_t /*sequence*/) const { return {"picture", "picture", 1}; }

RecordedLoss PictureClassifier::RecordLoss(Graph& graph, int64_t batch, int64_t /*sequence*/,
                                           bool training) const {
  if (batch < 1) {
    graph.Fail(absl::InvalidArgumentError(absl::StrCat("batch: ", batch, " is not positive")));
    return {};
  }
  Tensor pictures = Pictures(graph, task_, batch);
  const Tensor labels = graph.Input("labels", {DType::kI32, {batch}}, 0);
  if (training) pictures = Augmented(graph, task_, pictures);
  pictures = Normalized(graph, pictures);
  const Tensor logits = RecordLogits(graph, pictures, training ? labels : Tensor());
  Scope scope(&graph, "loss");
  RecordedLoss recorded = CrossEntropy(logits, labels, {training ? task_.label_smoothing : 0});
  if (training || !recorded.loss.mean.valid()) return recorded;
  recorded.output = logits;
  recorded.metrics.push_back({"accuracy", TopKCorrect(logits, labels, 1)});
  if (HasTop5()) recorded.metrics.push_back({"top5", TopKCorrect(logits, labels, kTop)});
  return recorded;
}

std::vector<std::string> PictureClassifier::Metrics() const {
  if (HasTop5()) return {"accuracy", "top5"};
  return {"accuracy"};
}

std::vector<BatchField> PictureClassifier::PredictionFields(int64_t sequence) const {
  return {BatchFields(sequence).front()};
}

Tensor PictureClassifier::RecordOutput(Graph& graph, int64_t batch, int64_t /*sequence*/) const {
  const Tensor pictures = Normalized(graph, Pictures(graph, task_, batch));
  return RecordLogits(graph, pictures, /*labels=*/{});
}

std::vector<Prediction> PictureClassifier::RecordPredictions(Tensor output) const {
  const Tensor largest = TopK(output, HasTop5() ? kTop : 1);
  const Tensor first = Reshape(Slice(largest, 1, 0, 1), {output.dim(0)});
  const Tensor probabilities = Softmax(output, 1);
  std::vector<Prediction> predictions = {{"class", first},
                                         {"probability", ReduceMax(probabilities, {1})}};
  if (HasTop5()) predictions.push_back({"top5", largest});
  return predictions;
}

bool PictureClassifier::HasTop5() const { return task_.classes > kTop; }

}  // namespace tessera
