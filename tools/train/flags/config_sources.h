// The configuration of a run, in the order of precedence: defaults, a preset or the configuration
// of the resumed run, a file, single fields.
#ifndef TESSERA_TOOLS_TRAIN_FLAGS_CONFIG_SOURCES_H_
#define TESSERA_TOOLS_TRAIN_FLAGS_CONFIG_SOURCES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/model/model.h"
#include "core/train/config/config_editor.h"
#include "core/train/config/run_config.pb.h"

namespace tessera {

// Returns the values that no preset, file or flag overrides.
RunConfig DefaultRunConfig();

// A field that a flag sets.
struct FieldSetting {
  std::string source;  // "--lr", "--set"
  std::string path;    // "optimizer.lr"
  std::string value;
};

// Returns the defaults and the preset of that name, or the first preset if it is "".
// InvalidArgument lists the presets.
absl::StatusOr<ConfigEditor> PresetConfig(const ModelDefinition& model, absl::string_view preset);

// Returns the configuration of a checkpoint. `source` names it in messages.
absl::StatusOr<ConfigEditor> SavedConfig(const ModelDefinition& model, absl::string_view text,
                                         absl::string_view source);

// Overrides the fields that a file names. Errors name the file.
absl::Status MergeFile(const std::string& path, ConfigEditor* config);

// The value of the field "batch" that leaves it to the strategy.
inline constexpr char kSearch[] = "search";

// Sets fields in order. An error names the flag. The value "search" of the batch leaves it open and
// keeps its default; a number closes it.
absl::Status ApplySettings(const std::vector<FieldSetting>& settings, ConfigEditor* config);

// A field whose value differs.
struct ConfigChange {
  std::string path;
  std::string before, after;
};
// Returns the fields whose values differ, in the order of FieldPaths. Both editors must be of the
// same model, so that they have the same fields.
std::vector<ConfigChange> ChangesBetween(const ConfigEditor& before, const ConfigEditor& after);

// Checks what can be checked without the model. InvalidArgument names the field, its value and the
// values that it may have.
absl::Status CheckRunConfig(const RunConfig& config);

// Returns the bytes of config.memory_limit, 0 if there is none. The field must have passed
// CheckRunConfig.
int64_t MemoryLimit(const RunConfig& config);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_FLAGS_CONFIG_SOURCES_H_
