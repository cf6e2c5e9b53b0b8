// The configuration of a run, from what a user said: defaults, then a preset or the configuration
// of the run that is resumed, then a file, then single fields.
#ifndef TESSERA_TOOLS_TRAIN_RUN_CONFIG_H_
#define TESSERA_TOOLS_TRAIN_RUN_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/train/config/config_editor.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/model.h"

namespace tessera {

// What holds where no preset, file or flag says otherwise.
RunConfig DefaultRunConfig();

// A field, as a flag named it.
struct FieldSetting {
  std::string source;  // "--lr", "--set"
  std::string path;    // "optimizer.lr"
  std::string value;
};

// Defaults and the preset of that name, the first one if it is "". InvalidArgument lists the
// presets.
absl::StatusOr<ConfigEditor> PresetConfig(const ModelDefinition& model, absl::string_view preset);

// The configuration that a checkpoint holds. `source` names it in messages.
absl::StatusOr<ConfigEditor> SavedConfig(const ModelDefinition& model, absl::string_view text,
                                         absl::string_view source);

// Lays a file over it. Errors name the file.
absl::Status MergeFile(const std::string& path, ConfigEditor* config);

// Sets fields in order. An error names the flag.
absl::Status ApplySettings(const std::vector<FieldSetting>& settings, ConfigEditor* config);

// A field whose value differs.
struct ConfigChange {
  std::string path;
  std::string before, after;
};
std::vector<ConfigChange> ChangesBetween(const ConfigEditor& before, const ConfigEditor& after);

// Everything that can be said without the model: InvalidArgument names the field, what it is and
// what would be right.
absl::Status CheckRunConfig(const RunConfig& config);

// The bytes of config.memory_limit, 0 if there is none. The field must have passed CheckRunConfig.
int64_t MemoryLimit(const RunConfig& config);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_RUN_CONFIG_H_
