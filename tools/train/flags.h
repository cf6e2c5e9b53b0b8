// The training tool's flags.
#ifndef TESSERA_TOOLS_TRAIN_FLAGS_H_
#define TESSERA_TOOLS_TRAIN_FLAGS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/train/model.h"
#include "tools/train/run_config.h"

namespace tessera {

enum class Mode { kTrain, kEvaluate, kSample };

// What a command line says. Paths are as the user wrote them.
struct CommandLine {
  bool help = false;
  std::string preset;
  std::string config;
  std::vector<FieldSetting> settings;  // of --set, then of the flags that are fields
  std::string out;
  std::string resume;
  bool allow_changed_data = false;
  Mode mode = Mode::kTrain;
  std::string trace;
  std::set<std::string> dump;  // "graph", "plan", "program", "memory"
  bool check_memory = false;
  bool plan_only = false;
};

// Parses every argument as one of our Abseil flags: --name=value, --name value, and --name or
// --noname for a bool. InvalidArgument names the flag, and says what would be right.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

// What --help prints: examples, then the flags in groups. `program` is how this one is called.
std::string HelpText(absl::string_view program, const ModelDefinition& model);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_FLAGS_H_
