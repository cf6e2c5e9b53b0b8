#include "tools/train/setup/effective_config.h"

#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/config/text_bounds.h"
#include "core/train/data/readers/reader_list.h"
#include "tools/train/flags/config_sources.h"
#include "tools/train/folder/run_folder.h"
#include "tools/train/setup/plan_source.h"
#include "tools/train/setup/schedule_of_run.h"

namespace tessera {
namespace {

bool MayChangeState(const std::string& path) {
  return absl::StartsWith(path, "model.") || path == "optimizer.kind" ||
         path == "optimizer.momentum";
}

std::string OrNone(const std::string& value) { return value.empty() ? "(none)" : value; }

std::string TextOf(const ConfigChange& change) {
  return absl::StrCat(change.path, " ", OrNone(change.before), " -> ", OrNone(change.after));
}

// Returns the changes that a resumed run makes to its configuration, as one note; "" if there are
// none. The settings of a sample and the data to predict are no changes.
std::string ChangesNote(const std::vector<ConfigChange>& changes, Mode mode) {
  std::vector<std::string> texts;
  for (const ConfigChange& change : changes) {
    if (mode == Mode::kSample && absl::StartsWith(change.path, "sample.")) continue;
    if (mode == Mode::kPredict && change.path == "data.file") continue;
    texts.push_back(TextOf(change));
  }
  return texts.empty() ? "" : absl::StrCat("overridden: ", absl::StrJoin(texts, ", "));
}

// If the user sets a learning rate below the preset's minimum, scales the minimum in the same
// proportion. A minimum that the user set is kept, and causes an error later.
absl::Status AdaptMinimum(const ConfigEditor& before, ConfigEditor* config,
                          std::vector<std::string>* notes) {
  const OptimizerConfig old_values = before.config().optimizer();
  const OptimizerConfig values = config->config().optimizer();
  const bool fits = values.schedule() == "constant" || values.min_lr() <= values.lr();
  if (fits || !(values.lr() >= 0) || values.min_lr() != old_values.min_lr()) {
    return absl::OkStatus();
  }
  const double min_lr = values.lr() * (old_values.min_lr() / old_values.lr());
  notes->push_back(absl::StrCat("optimizer.min_lr is lowered from ", old_values.min_lr(), " to ",
                                min_lr, ": it may not be above lr"));
  return config->Set("optimizer.min_lr", absl::StrCat(min_lr));
}

// Takes settings that the Plan states into the configuration.
absl::Status SetFromPlan(const CommandLine& line, const Plan& plan, ConfigEditor* config) {
  RunConfig values = config->config();
  RETURN_IF_ERROR(ApplyPlanSettings(plan, line, &values));
  RETURN_IF_ERROR(config->Set("batch", absl::StrCat(values.batch())));
  RETURN_IF_ERROR(config->Set("search_batch", values.search_batch() ? "true" : "false"));
  RETURN_IF_ERROR(config->Set("micro_batches", absl::StrCat(values.micro_batches())));
  RETURN_IF_ERROR(config->Set("dtype", values.dtype()));
  return config->Set("recompute", values.recompute());
}

// Sets the length of the learning rate's decay, and adds notes about the rates.
absl::Status SetSchedule(const ConfigEditor& before, Mode mode, const Checkpoint* checkpoint,
                         ConfigEditor* config, std::vector<std::string>* notes) {
  const RunConfig earlier = before.config();
  const RunConfig* const saved = checkpoint == nullptr ? nullptr : &earlier;
  const int64_t decay_steps = DecaySteps(config->config(), saved);
  RETURN_IF_ERROR(config->Set("optimizer.decay_steps", absl::StrCat(decay_steps)));
  if (mode != Mode::kTrain) return absl::OkStatus();
  const int64_t step = saved == nullptr ? 0 : checkpoint->step();
  for (std::string& note : ScheduleNotes(config->config(), saved, step)) {
    notes->push_back(std::move(note));
  }
  return absl::OkStatus();
}

// Returns the facts that must be the same on all ranks before Graphs are recorded.
std::vector<RankFact> FactsOf(const ConfigEditor& config, const CommandLine& line,
                              const ModelDefinition& definition) {
  std::vector<RankFact> facts = {{"the model", definition.name},
                                 {"--mode", ModeName(line.mode)},
                                 {"--resume", line.resume.empty() ? "" : "set"},
                                 {"--predictions", line.predictions.empty() ? "" : "set"},
                                 {"--epochs", absl::StrCat(line.epochs)},
                                 {"--plan", line.plan.empty() ? "" : "set"},
                                 {"--cluster", line.cluster.empty() ? "" : "set"},
                                 {"--strategy", line.strategy},
                                 {"--strategy_options", absl::StrJoin(line.strategy_options, ",")},
                                 {"--trace", line.trace.empty() ? "" : "set"},
                                 {"--check_memory", line.check_memory ? "true" : "false"}};
  for (const std::string& path : config.FieldPaths()) {
    // The data may have another path on another host; its contents are compared.
    if (path != "data.file") facts.push_back({path, config.Get(path)});
  }
  return facts;
}

}  // namespace

absl::StatusOr<EffectiveConfig> MakeEffectiveConfig(const CommandLine& line,
                                                    const ModelDefinition& definition,
                                                    const Checkpoint* checkpoint,
                                                    const std::optional<Plan>& plan,
                                                    std::vector<std::string>* notes) {
  ASSIGN_OR_RETURN(ConfigEditor config, checkpoint == nullptr
                                            ? PresetConfig(definition, line.preset)
                                            : ConfigOf(*checkpoint, definition));
  const ConfigEditor before(config.config(), config.model());
  if (!line.config.empty()) RETURN_IF_ERROR(MergeFile(UserPath(line.config), &config));
  RETURN_IF_ERROR(ApplySettings(line.settings, &config));
  const std::string file = config.Get("data.file");
  if (!file.empty() && !IsNameOfData(file)) {
    RETURN_IF_ERROR(config.Set("data.file", UserPath(file)));
  }
  RETURN_IF_ERROR(AdaptMinimum(before, &config, notes));
  if (plan.has_value()) RETURN_IF_ERROR(SetFromPlan(line, *plan, &config));
  if (checkpoint != nullptr && config.config().search_batch()) {
    RETURN_IF_ERROR(config.Set("search_batch", "false"));
    notes->push_back(absl::StrCat("--batch=", kSearch, " is for a new run: this one keeps its ",
                                  "batch of ", config.Get("batch")));
  }
  // The length of the decay that SetSchedule sets is no change of the user's.
  std::vector<std::string> shape_changes;
  if (checkpoint != nullptr) {
    const std::vector<ConfigChange> changes = ChangesBetween(before, config);
    for (const ConfigChange& change : changes) {
      if (MayChangeState(change.path)) shape_changes.push_back(TextOf(change));
    }
    std::string note = ChangesNote(changes, line.mode);
    if (!note.empty()) notes->push_back(std::move(note));
  }
  if (line.mode == Mode::kEvaluate && !line.predictions.empty() &&
      !SetsField(line, "eval_batches")) {
    RETURN_IF_ERROR(config.Set("eval_batches", "0"));  // all rows
  }
  RETURN_IF_ERROR(SetSchedule(before, line.mode, checkpoint, &config, notes));
  EffectiveConfig effective;
  effective.config = config.config();
  effective.text = absl::StrCat(kConfigTitle, config.ToText());
  effective.facts = FactsOf(config, line, definition);
  effective.shape_changes = std::move(shape_changes);
  // A checkpoint could not be read again with a longer one.
  RETURN_IF_ERROR(CheckConfigBounds(effective.text, "the effective configuration"));
  RETURN_IF_ERROR(CheckRunConfig(effective.config));
  ASSIGN_OR_RETURN(effective.model, definition.create(config.model()));
  return effective;
}

absl::StatusOr<ConfigEditor> ConfigOf(const Checkpoint& checkpoint,
                                      const ModelDefinition& definition) {
  return SavedConfig(definition, checkpoint.config(),
                     absl::StrCat(checkpoint.folder(), "/", kConfigFile));
}

}  // namespace tessera
