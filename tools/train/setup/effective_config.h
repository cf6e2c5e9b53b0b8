// The effective configuration of a run: that of a preset or of the resumed run, with all that
// files, flags and the Plan change.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_EFFECTIVE_CONFIG_H_
#define TESSERA_TOOLS_TRAIN_SETUP_EFFECTIVE_CONFIG_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/model.h"
#include "core/proto/plan.pb.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/config/config_editor.h"
#include "core/train/config/run_config.pb.h"
#include "core/train/ranks/compare_ranks.h"
#include "tools/train/flags/flags.h"

namespace tessera {

struct EffectiveConfig {
  RunConfig config;
  std::string text;             // as it is saved
  std::vector<RankFact> facts;  // of the command line and this; the same on all ranks
  // The overridden fields of the saved configuration that may change the shape of the state.
  std::vector<std::string> shape_changes;
  std::unique_ptr<Model> model;
};

// Returns the configuration of a run, which is new (`checkpoint` is null) or resumes a checkpoint,
// and its model. `plan` is that of --plan. Errors name the user's input that does not fit. `notes`
// receives notes for the user.
absl::StatusOr<EffectiveConfig> MakeEffectiveConfig(const CommandLine& line,
                                                    const ModelDefinition& definition,
                                                    const Checkpoint* checkpoint,
                                                    const std::optional<Plan>& plan,
                                                    std::vector<std::string>* notes);

// Returns the configuration that a checkpoint has saved. Errors name its file.
absl::StatusOr<ConfigEditor> ConfigOf(const Checkpoint& checkpoint,
                                      const ModelDefinition& definition);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_EFFECTIVE_CONFIG_H_
