#include "core/plan/check.h"

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/plan/choices/pass_names.h"
#include "core/plan/choices/stage_passes.h"
#include "core/plan/rewrite/keep_logits.h"
#include "core/plan/rewrite/precision_choice.h"
#include "core/plan/rewrite/recomputed_ops.h"
#include "core/status/status_macros.h"
#include "core/text/quote.h"

namespace tessera {

namespace {

// Returns what is wrong with the passes of a part; "" if nothing is.
std::string FaultOfPasses(const PlanPart& part) {
  for (const std::string& name : part.passes()) {
    const std::string listed = absl::StrCat(" lists pass ", Quote(name));
    const bool of_stage = absl::c_any_of(
        StagePassesWithHelp(), [&](const StagePassHelp& pass) { return pass.name == name; });
    if (of_stage) {
      return absl::StrCat(listed, ", which the stage lists: stages { pass { ", name, " {} } }");
    }
    if (name == kNoPass) {
      if (part.passes_size() > 1) return listed + " beside others; it stands alone";
    } else if (!absl::c_linear_search(kPassNames, name)) {
      return absl::StrCat(listed, "; there are ", absl::StrJoin(kPassNames, ", "), " and ",
                          kNoPass);
    }
  }
  return "";
}

// Returns what is wrong with the settings of a part; "" if nothing is.
std::string FaultOfPart(const PlanPart& part) {
  if (part.micro_batches() < 0) {
    return absl::StrCat(" has micro_batches: ", part.micro_batches(), "; it must be at least 1");
  }
  if (!PlanPart::Logits_IsValid(part.logits())) {
    return absl::StrCat(" has logits: ", part.logits(), ", which is neither RECOMPUTED nor KEPT");
  }
  return FaultOfPasses(part);
}

// Checks that there is a mesh if there are layouts, or passes for communication.
absl::Status CheckMesh(const Stage& stage) {
  if (stage.mesh_size() > 0) return absl::OkStatus();
  const auto error = [](absl::string_view choice, absl::string_view path) {
    return absl::InvalidArgumentError(absl::StrCat("the Plan has no mesh, but a layout for ",
                                                   choice, " ", Quote(path),
                                                   "; name an axis: mesh { name: \"data\" }"));
  };
  if (stage.store_size() > 0) return error("store", stage.store(0).path());
  if (stage.compute_size() > 0) return error("compute", stage.compute(0).path());
  if (stage.group_size() > 0) return error("group", stage.group(0).path());
  if (stage.redistribution_size() > 0) {
    return error("redistribution", stage.redistribution(0).from());
  }
  for (const PassChoice& choice : stage.pass()) {
    if (choice.has_offload()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the Plan has no mesh, but pass ", Quote(NameOf(choice)),
                     " for the communication on one; name an axis: mesh { name: \"data\" }"));
  }
  for (const PlanPart& part : stage.parts()) {
    if (part.compute_size() > 0) return error("compute", part.compute(0).path());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPlanForm(const Plan& plan) {
  if (plan.format() != 0 && plan.format() != kPlanFormat) {
    return absl::InvalidArgumentError(absl::StrCat("the Plan has format ", plan.format(),
                                                   "; this version reads format ", kPlanFormat,
                                                   ", which docs/plans.md describes"));
  }
  if (plan.stages_size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the Plan has ", plan.stages_size(), " stages; this version runs one"));
  }
  if (plan.batch() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the Plan is for a batch of ", plan.batch(), " rows; it must be at least 1"));
  }
  absl::flat_hash_set<std::string> graphs;
  for (const Stage& stage : plan.stages()) {
    RETURN_IF_ERROR(ReadStagePasses(stage).status());
    RETURN_IF_ERROR(CheckMesh(stage));
    RETURN_IF_ERROR(ReadPrecision(stage).status());
    for (const PlanPart& part : stage.parts()) {
      if (part.graph().empty()) {
        return absl::InvalidArgumentError("the Plan has a part that names no graph");
      }
      if (!graphs.insert(part.graph()).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("the Plan has two parts for graph ", Quote(part.graph())));
      }
      if (const std::string fault = FaultOfPart(part); !fault.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat("the Plan's part for graph ", Quote(part.graph()), fault));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPlan(const Plan& plan, absl::Span<const Graph> graphs) {
  absl::Status form = CheckPlanForm(plan);
  if (!form.ok() || plan.batch() == 0) return form;
  for (const Graph& graph : graphs) {
    for (const GraphInput& input : graph.inputs()) {
      if (input.batch_dim == kNone) continue;
      const Value& value = graph.value(input.value);
      const int64_t rows = value.type.shape[input.batch_dim];
      if (rows == plan.batch()) continue;
      return absl::InvalidArgumentError(absl::StrCat("the Plan is for a batch of ", plan.batch(),
                                                     " rows, but input ", Quote(value.path),
                                                     " of graph '", graph.name(), "' has ", rows));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPlanPart(const Graph& graph, const PlanPart& part) {
  return CheckPlanPart(Fingerprints({&graph, 1}), 0, part);
}

absl::Status CheckPlanPart(const Fingerprints& graphs, size_t number, const PlanPart& part) {
  const Graph& graph = graphs.graphs()[number];
  if (!part.graph().empty() && part.graph() != graph.name()) {
    return absl::InvalidArgumentError(absl::StrCat("the Plan's part for graph ",
                                                   Quote(part.graph()), " is not for graph '",
                                                   graph.name(), "'"));
  }
  if (!part.fingerprint().empty()) {
    const std::string& fingerprint = graphs.Of(number);
    if (part.fingerprint() != fingerprint) {
      return absl::InvalidArgumentError(
          absl::StrCat("the Plan was made for another graph '", graph.name(),
                       "': its fingerprint is ", part.fingerprint(), ", this graph's ", fingerprint,
                       ". Model, sizes and optimizer must be those that it was made with"));
    }
  }
  if (part.micro_batches() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("micro_batches: ", part.micro_batches(), "; it must be at least 1"));
  }
  if (part.logits() == PlanPart::KEPT && !HasLogitsToKeep(graph)) {
    return absl::InvalidArgumentError(
        absl::StrCat("logits: KEPT, but graph '", graph.name(),
                     "' has no backward pass that reads logits; leave out the field"));
  }
  const std::vector<std::string> recompute(part.recompute().begin(), part.recompute().end());
  return FindRecomputedOps(graph, recompute).status();
}

}  // namespace tessera
