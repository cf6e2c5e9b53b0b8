#include "tools/train/setup/decided_settings.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/status/status_macros.h"
#include "core/train/config/config_editor.h"
#include "core/train/programs.h"
#include "tools/train/flags/config_sources.h"
#include "tools/train/folder/run_folder.h"

namespace tessera {
namespace {

// Sets a field in the text of the configuration, with which a checkpoint is resumed.
absl::Status SetInText(const FieldSetting& setting, ConfiguredRun& configured) {
  ASSIGN_OR_RETURN(ConfigEditor config, SavedConfig(*configured.definition, configured.config_text,
                                                    "the configuration"));
  RETURN_IF_ERROR(ApplySettings({setting}, &config));
  configured.config_text = absl::StrCat(kConfigTitle, config.ToText());
  return absl::OkStatus();
}

// Returns the part of a Plan for the training Graph; nullptr if there is none.
const PlanPart* FindTrainingPart(const Plan& plan) {
  for (const Stage& stage : plan.stages()) {
    for (const PlanPart& part : stage.parts()) {
      if (part.graph() == kTrain) return &part;
    }
  }
  return nullptr;
}

}  // namespace

std::vector<strategy::PlanRequest::Setting> OpenSettings(const CommandLine& line,
                                                         const ConfiguredRun& configured) {
  std::vector<strategy::PlanRequest::Setting> open;
  if (configured.checkpoint != nullptr) return open;
  if (!SetsField(line, "micro_batches")) open.push_back(strategy::PlanRequest::MICRO_BATCHES);
  if (!SetsField(line, "recompute")) open.push_back(strategy::PlanRequest::RECOMPUTE);
  if (configured.config.search_batch()) open.push_back(strategy::PlanRequest::BATCH);
  return open;
}

absl::StatusOr<int64_t> BatchUnder(const Plan& plan, const ConfiguredRun& configured) {
  RunConfig config = configured.config;
  if (plan.batch() == 0 || plan.batch() == config.batch()) return config.batch();
  config.set_batch(plan.batch());
  config.set_search_batch(false);
  const PlanPart* const part = FindTrainingPart(plan);
  if (part != nullptr && part->micro_batches() > 0) config.set_micro_batches(part->micro_batches());
  RETURN_IF_ERROR(CheckRunConfig(config));
  return config.batch();
}

absl::Status CloseBatch(int64_t batch, ConfiguredRun& configured) {
  configured.config.set_batch(batch);
  configured.config.set_search_batch(false);
  return SetInText({"the Plan", "batch", absl::StrCat(batch)}, configured);
}

absl::Status SetDecided(const CommandLine& line, const Plan& plan, ConfiguredRun& configured) {
  const PlanPart* const part = FindTrainingPart(plan);
  if (part == nullptr) return absl::OkStatus();
  const std::vector<strategy::PlanRequest::Setting> open = OpenSettings(line, configured);
  if (absl::c_linear_search(open, strategy::PlanRequest::RECOMPUTE)) {
    // Resuming takes it from the saved Plan.
    configured.config.set_recompute(
        part->recompute().empty() ? "none" : absl::StrJoin(part->recompute(), "|"));
  }
  if (!absl::c_linear_search(open, strategy::PlanRequest::MICRO_BATCHES)) return absl::OkStatus();
  configured.config.set_micro_batches(part->micro_batches());
  // The batch need not be divisible by the former number.
  return SetInText({"the Plan", "micro_batches", absl::StrCat(part->micro_batches())}, configured);
}

}  // namespace tessera
