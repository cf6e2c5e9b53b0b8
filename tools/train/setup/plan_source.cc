#include "tools/train/setup/plan_source.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/layout/layout_proto.h"
#include "core/plan/complete.h"
#include "core/plan/run_settings.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/tensor/dtype.h"
#include "core/text/human_units.h"
#include "core/text/nearest_name.h"
#include "core/text/quote.h"
#include "core/train/checkpoint/manifest.h"
#include "core/train/programs.h"
#include "core/train/record/plan_text.h"
#include "core/train/record/saved_plan.h"
#include "tools/train/setup/strategy_session.h"

namespace tessera {
namespace {

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxTextBytes + 1, '\0');  // one byte more shows that there are too many
  file.read(&text[0], static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read the Plan ", path));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (static_cast<int64_t>(text.size()) <= kMaxTextBytes) return text;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": a Plan has at most ", FormatBytes(kMaxTextBytes)));
}

// Checks the names of a Plan's parts. They may be for Graphs that this run lacks, but must be among
// these names.
absl::Status CheckGraphNames(const Plan& plan) {
  const std::vector<std::string> known = {kInitialise, kTrain, kEvaluate, kPredict, kGenerate};
  for (const Stage& stage : plan.stages()) {
    for (const PlanPart& part : stage.parts()) {
      if (absl::c_linear_search(known, part.graph())) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the Plan has a part for graph ", Quote(part.graph()), "; a run has ",
                       absl::StrJoin(known, ", "), DidYouMean(part.graph(), known)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Plan> ParsePlan(const std::string& text, const std::string& path) {
  absl::StatusOr<Plan> plan = ParsePlanText(text);
  const absl::Status status = plan.ok() ? CheckGraphNames(*plan) : plan.status();
  if (status.ok()) return plan;
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

PlanPart* FindPart(const std::string& graph, Plan* plan) {
  if (plan->stages_size() == 0) return nullptr;
  for (PlanPart& part : *plan->mutable_stages(0)->mutable_parts()) {
    if (part.graph() == graph) return &part;
  }
  return nullptr;
}

bool HasMesh(const Plan& plan) { return plan.stages_size() > 0 && plan.stages(0).mesh_size() > 0; }

// Checks that the Plan does not contradict a flag that the user has passed.
absl::Status CheckRecomputation(const PlanPart& default_part, const CommandLine& line, Plan* plan) {
  const PlanPart* const part = FindPart(default_part.graph(), plan);
  if (part == nullptr || !StatesRecomputation(*part) || !SetsField(line, "recompute") ||
      std::equal(part->recompute().begin(), part->recompute().end(),
                 default_part.recompute().begin(), default_part.recompute().end())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--recompute and the Plan differ in what they recompute of graph '",
                   default_part.graph(), "': leave out --recompute"));
}

// The dtype of parameters that a Plan states; "" if it leaves that open.
std::string DTypeOf(const Plan& plan) {
  if (plan.stages_size() == 0 || !plan.stages(0).precision().has_parameters()) return "";
  return std::string(DTypeName(static_cast<DType>(plan.stages(0).precision().parameters())));
}

void SetPrecision(const Plan& default_plan, Plan& plan) {
  if (plan.stages_size() == 0) plan.add_stages();
  Stage& stage = *plan.mutable_stages(0);
  stage.clear_precision();
  if (default_plan.stages(0).has_precision())
    *stage.mutable_precision() = default_plan.stages(0).precision();
}

// Returns the saved Plan of a resumed run without what a change of the batch or of the settings
// makes invalid: fingerprints, another batch than the run's, and what flags override.
// `default_plan` has the parts and the settings that it lacks.
absl::StatusOr<Plan> ResumedPlan(Plan saved, const CommandLine& line, const Plan& default_plan,
                                 int64_t batch) {
  if (saved.batch() != batch) saved.clear_batch();
  for (const PlanPart& each : default_plan.stages(0).parts()) {
    PlanPart* const part = FindPart(each.graph(), &saved);
    if (part == nullptr) {
      *saved.mutable_stages(0)->add_parts() = each;
      continue;
    }
    part->clear_fingerprint();
    if (SetsField(line, "micro_batches")) part->set_micro_batches(each.micro_batches());
    if (SetsField(line, "recompute")) *part->mutable_recompute() = each.recompute();
  }
  if (SetsField(line, "dtype")) SetPrecision(default_plan, saved);
  return saved;
}

// Returns the error of a run on several ranks that has no Plan.
absl::Status NeedsPlan(int ranks) {
  return absl::InvalidArgumentError(absl::StrCat(
      "a run of ", ranks, " ranks needs a strategy (--strategy=ddp) or a Plan (--plan=FILE)"));
}

}  // namespace

absl::StatusOr<std::string> StrategyOfRun(const CommandLine& line, const Checkpoint* checkpoint,
                                          int ranks) {
  if (!line.strategy.empty()) return line.strategy;
  if (!line.plan.empty() || ranks == 1) return "";
  if (checkpoint == nullptr) return DefaultStrategy();
  ASSIGN_OR_RETURN(const Plan saved, ReadPlan(*checkpoint));
  return HasMesh(saved) ? "" : DefaultStrategy();
}

absl::StatusOr<std::optional<Plan>> ReadPlanFlag(const CommandLine& line, Ranks& ranks) {
  if (line.plan.empty()) return std::optional<Plan>();
  const std::string path = UserPath(line.plan);
  ASSIGN_OR_RETURN(const std::string text,
                   ranks.BroadcastFromFirst([&] { return ReadText(path); }));
  absl::StatusOr<Plan> plan = ParsePlan(text, path);
  RETURN_IF_ERROR(ranks.Agree(plan.status()));
  return std::optional<Plan>(*std::move(plan));
}

absl::Status ApplyPlanSettings(const Plan& plan, const CommandLine& line, RunConfig* config) {
  if (const std::string dtype = DTypeOf(plan); !dtype.empty()) {
    if (SetsField(line, "dtype") && config->dtype() != dtype) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--dtype is ", config->dtype(), ", and the Plan says ", dtype, ": leave out --dtype"));
    }
    config->set_dtype(dtype);
  }
  if (plan.batch() > 0) {
    const bool is_set = SetsField(line, "batch") && !config->search_batch();
    if (is_set && config->batch() != plan.batch()) {
      return absl::InvalidArgumentError(absl::StrCat("--batch is ", config->batch(),
                                                     ", and the Plan is for a batch of ",
                                                     plan.batch(), ": leave out --batch"));
    }
    config->set_batch(plan.batch());
    config->set_search_batch(false);
  }
  Plan copy = plan;
  const PlanPart* const part = FindPart(kTrain, &copy);
  if (part == nullptr) return absl::OkStatus();
  const int64_t micro_batches = part->micro_batches();
  if (micro_batches > 0) {
    if (SetsField(line, "micro_batches") && config->micro_batches() != micro_batches) {
      return absl::InvalidArgumentError(
          absl::StrCat("--micro_batches is ", config->micro_batches(), ", and the Plan says ",
                       micro_batches, " for graph '", kTrain, "': leave out --micro_batches"));
    }
    config->set_micro_batches(micro_batches);
  }
  if (!StatesRecomputation(*part)) return absl::OkStatus();
  const bool recomputes = part->recompute_size() > 0;
  if (!SetsField(line, "recompute")) {
    config->set_recompute(recomputes ? absl::StrJoin(part->recompute(), "|") : "none");
    return absl::OkStatus();
  }
  // Whether both recompute the same is checked when the model's Graph is known.
  if (recomputes == (config->recompute() != "none")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--recompute is ", config->recompute(), ", and the Plan says that ",
                   recomputes ? "activations are recomputed" : "nothing is recomputed",
                   " for graph '", kTrain, "': leave out --recompute"));
}

absl::StatusOr<Plan> PlanOfRun(const CommandLine& line, const Plan& settings,
                               const std::optional<Plan>& open, const Checkpoint* checkpoint,
                               int64_t batch, int ranks, std::vector<std::string>* notes) {
  Plan saved;
  if (checkpoint != nullptr) {
    ASSIGN_OR_RETURN(saved, ReadPlan(*checkpoint));
  }
  if (open.has_value()) {
    Plan plan = *open;
    for (const PlanPart& part : settings.stages(0).parts()) {
      RETURN_IF_ERROR(CheckRecomputation(part, line, &plan));
    }
    FillInSettings(settings, plan);
    if (plan.kernels().choices_size() == 0) *plan.mutable_kernels() = saved.kernels();
    return plan;
  }
  if (HasMesh(saved)) {
    if (MeshOfPlan(saved, ranks).ok()) {
      return ResumedPlan(std::move(saved), line, settings, batch);
    }
    if (ranks > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the checkpoint's Plan is for a mesh of another size, and this job has ", ranks,
          " ranks: name a strategy or a Plan for them with --strategy=NAME or --plan=FILE"));
    }
    notes->push_back("the checkpoint's Plan is for several ranks: one process needs none of it");
  } else if (ranks > 1) {
    return NeedsPlan(ranks);
  }
  Plan plan = settings;
  // A resumed run keeps its kernels and slices; with others its results would have different bits.
  *plan.mutable_kernels() = saved.kernels();
  if (saved.stages_size() > 0 && !HasMesh(saved)) {
    *plan.mutable_stages(0)->mutable_slice() = saved.stages(0).slice();
  }
  return plan;
}

}  // namespace tessera
