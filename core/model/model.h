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
#include "core/ops/ops.h"
#include "google/protobuf/message.h"

namespace tessera {

// A parameter whose dimensions had another order in an older version of a model's states:
// dimension d of the older tensor is dimension stored[d] of the parameter.
struct FormerOrder {
  std::string parameter;  // its path
  std::vector<int> stored;
};

// Thread safety: const methods may run concurrently, on different Graphs.
class Model {
 public:
  virtual ~Model() = default;

  // Tokens are in [0, vocabulary()).
  virtual int64_t vocabulary() const = 0;
  // The longest sequence that it accepts.
  virtual int64_t max_sequence() const = 0;

  // Records the loss of a batch: declares the inputs "tokens" and "targets" (i32 [batch, sequence],
  // batch_dim 0), and every parameter, and returns the loss, the mean over the valid targets of the
  // global batch, and which of the targets these are. Errors are left in graph.status(), with
  // invalid handles. `training`: with dropout.
  virtual MeanLoss RecordLoss(Graph& graph, int64_t batch, int64_t sequence,
                              bool training) const = 0;

  // Records the logits of every position of a batch, from the input "tokens" alone: f32 [batch,
  // sequence, vocabulary], or [batch, vocabulary] if the model predicts only the last position.
  virtual Tensor RecordLogits(Graph& graph, int64_t batch, int64_t sequence) const = 0;

  // Records the generation of one token: declares the inputs "token" (i32 [1]) and "position" (i64
  // []: how many tokens came before it), the caches (Role::kCache), and the parameters; returns the
  // logits of the next token, f32 [vocabulary]. Positions run from 0 to length - 1.
  virtual Tensor RecordNextToken(Graph& graph, int64_t length) const = 0;

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
