// The base of models that classify pictures: the fields of a batch, crops and flips, the
// normalization, the loss with its metrics, and the predictions. A model adds its network.
#ifndef TESSERA_MODELS_PICTURES_PICTURE_CLASSIFIER_H_
#define TESSERA_MODELS_PICTURES_PICTURE_CLASSIFIER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/graph/graph.h"
#include "core/model/model.h"

namespace tessera {

struct PictureTask {
  int64_t height = 0, width = 0, channels = 0;
  int64_t classes = 0;
  // In training only: the share of a label's probability that is spread evenly over all classes,
  // black pixels on each side before a window of the picture's size is cut out at a random place,
  // and whether left and right are exchanged in half of the pictures.
  double label_smoothing = 0;
  int64_t crop_padding = 0;
  bool flips = false;
};

// Returns the task of a model's configuration, which has these fields.
template <typename Config>
PictureTask PictureTaskOf(const Config& config) {
  PictureTask task;
  task.height = config.height();
  task.width = config.width();
  task.channels = config.channels();
  task.classes = config.classes();
  task.label_smoothing = config.label_smoothing();
  task.crop_padding = config.crop_padding();
  task.flips = config.flips();
  return task;
}

// Returns InvalidArgument, with the name of the invalid field ("model.height: ...").
absl::Status CheckPictureTask(const PictureTask& task);

// Pictures are u8 [batch, height, width, channels], and labels are i32 [batch]. The metrics are
// accuracy and, if there are more than 5 classes, top5.
class PictureClassifier : public Model {
 public:
  // CheckPictureTask accepts the task.
  explicit PictureClassifier(const PictureTask& task) : task_(task) {}

  std::vector<BatchField> BatchFields(int64_t sequence) const override;
  SampleUnit Unit(int64_t sequence) const override;
  RecordedLoss RecordLoss(Graph& graph, int64_t batch, int64_t sequence,
                          bool training) const override;
  std::vector<std::string> Metrics() const override;
  std::vector<BatchField> PredictionFields(int64_t sequence) const override;
  Tensor RecordOutput(Graph& graph, int64_t batch, int64_t sequence) const override;
  std::vector<Prediction> RecordPredictions(Tensor output) const override;

 private:
  // Records the network: pictures f32 [batch, height, width, channels], from -1 to 1, -> logits
  // [batch, classes]. `labels` are those of a step that trains; an invalid handle otherwise.
  virtual Tensor RecordLogits(Graph& graph, Tensor pictures, Tensor labels) const = 0;

  bool HasTop5() const;

  const PictureTask task_;
};

}  // namespace tessera

#endif  // TESSERA_MODELS_PICTURES_PICTURE_CLASSIFIER_H_
