// The interface of models: a model records Graphs for the training loop. It knows no strategy, no
// device and no rank.
#ifndef TESSERA_CORE_MODEL_MODEL_H_
#define TESSERA_CORE_MODEL_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "core/model/batch_field.h"
#include "core/model/sample_unit.h"
#include "core/ops/ops.h"
#include "google/protobuf/message.h"

namespace tessera {

// A parameter whose dimensions had another order in an older version of a model's states:
// dimension d of the older tensor is dimension stored[d] of the parameter.
struct FormerOrder {
  std::string parameter;  // its path
  std::vector<int> stored;
};

// A figure beside the loss, of which an evaluation is the mean over all valid targets.
struct Metric {
  std::string name;  // "accuracy"
  Tensor values;     // f32, of each target: has the shape of MeanLoss::valid
};

// A prediction for each row of a batch.
struct Prediction {
  std::string name;  // "class"
  Tensor values;     // [batch] or [batch, n], i32 or a float
};

// The results of a batch.
struct RecordedLoss {
  RecordedLoss() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): most models have only a loss.
  RecordedLoss(MeanLoss of_batch) : loss(of_batch) {}

  MeanLoss loss;
  std::vector<Metric> metrics = {};  // those of Model::Metrics, unless it trains
  // The argument of Model::RecordPredictions, unless it trains; may be invalid.
  Tensor output = {};
};

class LanguageModel;

// Thread safety: const methods may run concurrently, on different Graphs.
class Model {
 public:
  virtual ~Model() = default;

  // Returns the inputs of a batch, in the order in which RecordLoss declares them. `sequence` is
  // the length of a row, for a model whose rows have any length.
  virtual std::vector<BatchField> BatchFields(int64_t sequence) const = 0;

  // Returns what speed is counted in.
  virtual SampleUnit Unit(int64_t /*sequence*/) const { return {}; }

  // Records the loss of a batch: declares its inputs, [batch, ...] with batch_dim 0, and every
  // parameter, and returns the loss, the mean over the valid targets of the global batch, and which
  // of the targets these are. Errors are left in graph.status(), with invalid handles. `training`:
  // with dropout, and without metrics.
  virtual RecordedLoss RecordLoss(Graph& graph, int64_t batch, int64_t sequence,
                                  bool training) const = 0;

  // The names of the metrics of an evaluation, beside the loss.
  virtual std::vector<std::string> Metrics() const { return {}; }

  // Returns the inputs of a batch without its targets, which are some of BatchFields: those that
  // RecordOutput declares. Empty if the model predicts nothing from them.
  virtual std::vector<BatchField> PredictionFields(int64_t /*sequence*/) const { return {}; }

  // Records the output of a batch without its targets: the same as RecordedLoss::output.
  virtual Tensor RecordOutput(Graph& /*graph*/, int64_t /*batch*/, int64_t /*sequence*/) const {
    return {};
  }

  // Records what an output predicts of each row.
  virtual std::vector<Prediction> RecordPredictions(Tensor /*output*/) const { return {}; }

  // Returns null if the model does not generate text.
  virtual const LanguageModel* AsLanguageModel() const { return nullptr; }

  // The version of the parameters' shapes, which every checkpoint holds. A model increments it when
  // it changes the order of a parameter's dimensions.
  virtual int64_t state_version() const { return 1; }

  // The parameters that had another order in `version`, which is below state_version().
  virtual std::vector<FormerOrder> FormerOrders(int64_t version) const { return {}; }
};

struct Preset {
  std::string name;
  std::string text;  // a RunConfig in protobuf's text form
};

// A model as tools see it. models/models.h lists all models.
struct ModelDefinition {
  std::string name;                                 // "gpt"
  const google::protobuf::Message* default_config;  // of the model's own message type
  std::vector<Preset> presets;                      // the first is the default
  // `config` is of default_config's type; InvalidArgument names the field that does not fit.
  absl::StatusOr<std::unique_ptr<Model>> (*create)(const google::protobuf::Message& config);
  // For --help: a setting that fits the default preset, "model.layers=6".
  std::string example = "";
};

}  // namespace tessera

#endif  // TESSERA_CORE_MODEL_MODEL_H_
