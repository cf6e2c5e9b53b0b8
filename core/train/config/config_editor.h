// Puts a run's configuration together: defaults, then texts (presets, files), then single fields,
// each over what came before.
//
// A text sets the fields that it names and leaves the others, whatever their values: `lr: 0` and
// `hidden: []` set too. The model's own message stands in a text as an Any,
//
//   model { [type.googleapis.com/tessera.GptConfig] { layers: 6 } }
//
// or without its type, model { layers: 6 },
// and its fields are changed one by one, like all others; their paths are "model.layers", ....
#ifndef TESSERA_CORE_TRAIN_CONFIG_CONFIG_EDITOR_H_
#define TESSERA_CORE_TRAIN_CONFIG_CONFIG_EDITOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/train/config/run_config.pb.h"
#include "google/protobuf/message.h"

namespace tessera {

// Not thread-safe.
class ConfigEditor {
 public:
  // `defaults.model` is not looked at: the model's message starts as `default_model`.
  ConfigEditor(RunConfig defaults, const google::protobuf::Message& default_model);

  // Sets the fields that `text` names. InvalidArgument for a text that is no RunConfig with a model
  // of ours, or is beyond the bounds of text_bounds.h; the message starts with `source` and the
  // line.
  absl::Status MergeText(absl::string_view text, absl::string_view source);

  // Sets one field, "optimizer.lr" or "model.layers"; a list is written as "[64;32]". NotFound for
  // a field that there is not, InvalidArgument for a value that does not fit.
  absl::Status Set(absl::string_view path, absl::string_view value);

  // The value of a field, as Set takes it; `path` must be one of FieldPaths().
  std::string Get(absl::string_view path) const;

  // Every field that can be set, in the order of the messages.
  std::vector<std::string> FieldPaths() const;

  // With the model's message in it.
  RunConfig config() const;
  const google::protobuf::Message& model() const { return *model_; }

  // Every field written out, so that MergeText of it over anything gives this configuration.
  std::string ToText() const;

 private:
  struct Place;
  absl::Status Find(absl::string_view path, Place* place) const;

  std::unique_ptr<RunConfig> run_;
  std::unique_ptr<google::protobuf::Message> model_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CONFIG_CONFIG_EDITOR_H_
