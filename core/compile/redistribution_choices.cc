#include "core/compile/redistribution_choices.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/graph/attributes_proto.h"
#include "core/layout/layout_text.h"
#include "core/layout/redistribution/stated_path.h"
#include "core/status/status_macros.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

absl::Status StateRedistribution(const RedistributionChoice& choice, RedistributionFinder& finder) {
  const Mesh& mesh = finder.mesh();
  ASSIGN_OR_RETURN(const TensorType type, FromProto(choice.type()));
  ASSIGN_OR_RETURN(const MeshLayout from, ParseMeshLayout(choice.from(), mesh));
  ASSIGN_OR_RETURN(const MeshLayout to, ParseMeshLayout(choice.to(), mesh));
  std::vector<RedistributionStep> steps;
  for (const std::string& text : choice.step()) {
    ASSIGN_OR_RETURN(RedistributionStep step, ParseStep(text, mesh));
    steps.push_back(std::move(step));
  }
  return finder.State(from, to, type, std::move(steps));
}

// Returns text like "f32[4, 8] from 'data: P' to 'B'".
std::string NameOf(const RedistributionChoice& choice) {
  const absl::StatusOr<TensorType> type = FromProto(choice.type());
  return absl::StrCat(type.ok() ? TypeToString(*type) : "a value", " from ", Quote(choice.from()),
                      " to ", Quote(choice.to()));
}

}  // namespace

absl::Status StateRedistributions(const Stage& stage, RedistributionFinder& finder) {
  for (const RedistributionChoice& choice : stage.redistribution()) {
    const absl::Status stated = StateRedistribution(choice, finder);
    if (stated.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the Plan's redistribution of ", NameOf(choice), ": ", stated.message(),
                     ". Without this choice the cheapest steps are taken"));
  }
  return absl::OkStatus();
}

std::string RedistributionKey(const Stage& stage) {
  Stage stated;
  *stated.mutable_redistribution() = stage.redistribution();
  return stated.SerializeAsString();
}

void ListRedistributions(const RedistributionFinder& finder, Stage& stage) {
  stage.clear_redistribution();
  for (const UsedRedistribution& used : finder.used()) {
    RedistributionChoice& choice = *stage.add_redistribution();
    *choice.mutable_type() = ToProto(used.type);
    choice.set_from(used.from.ToString(finder.mesh()));
    choice.set_to(used.to.ToString(finder.mesh()));
    for (const RedistributionStep& step : used.path->steps) {
      choice.add_step(step.ToString(finder.mesh()));
    }
  }
}

}  // namespace tessera
