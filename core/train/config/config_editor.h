// Builds a run's configuration from defaults, then texts (presets, files), then single fields, each
// overriding the earlier ones.
//
// A text sets the fields that it names, also to zero or empty (`lr: 0`, `hidden: []`), and leaves
// the others. A text holds the model's own message as an Any,
//
//   model { [type.googleapis.com/tessera.GptConfig] { layers: 6 } }
//
// or without its type, as model { layers: 6 }. Its fields are set one by one, like all others;
// their paths are "model.layers", ....
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
  // `defaults.model` is ignored: the model's message starts as `default_model`.
  ConfigEditor(RunConfig defaults, const google::protobuf::Message& default_model);

  // Sets the fields that `text` names. Returns InvalidArgument if the text is not a RunConfig whose
  // model has the type of `default_model`, or exceeds the bounds of text_bounds.h. The message
  // starts with `source`, and with the line if it is a syntax error.
  absl::Status MergeText(absl::string_view text, absl::string_view source);

  // Sets one field, such as "optimizer.lr" or "model.layers"; a list is written as "[64;32]".
  // Returns NotFound for an unknown field, and InvalidArgument for a value that does not fit.
  absl::Status Set(absl::string_view path, absl::string_view value);

  // Returns the value of a field, in the form that Set accepts. `path` must be one of FieldPaths().
  std::string Get(absl::string_view path) const;

  // Returns the paths of all fields that can be set, in the order of the messages.
  std::vector<std::string> FieldPaths() const;

  // Returns the configuration, with the model's message in it.
  RunConfig config() const;
  const google::protobuf::Message& model() const { return *model_; }

  // Returns the text of all fields. Merging it into any configuration results in this one.
  std::string ToText() const;

 private:
  struct FieldLocation;
  // Sets *location to the field of a path. NotFound if there is none.
  absl::Status Find(absl::string_view path, FieldLocation* location) const;

  std::unique_ptr<RunConfig> run_;
  std::unique_ptr<google::protobuf::Message> model_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CONFIG_CONFIG_EDITOR_H_
