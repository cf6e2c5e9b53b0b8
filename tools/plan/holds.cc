#include "tools/plan/holds.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/status/with_message.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "tools/train/setup/plan_run.h"

namespace tessera {
namespace {

// Returns the request that replays the Plan in a file.
CellRequest ReplayOf(const std::string& file, CellRequest request) {
  request.line.plan = file;
  request.line.strategy.clear();
  request.line.strategy_options.clear();
  return request;
}

// Returns an error of a Plan's replay, which names the file.
absl::Status NamingFile(const std::string& file, const absl::Status& status) {
  if (status.ok() || absl::StrContains(status.message(), file)) return status;
  return WithMessage(status, absl::StrCat(file, ": ", status.message()));
}

// Returns what has changed for the Plan of `saved`; "" if it still holds.
absl::StatusOr<std::string> ChangeFor(const Cell& saved, const CellRequest& request,
                                      const ModelDefinition& model) {
  if (!saved.fits()) {
    return absl::StrCat("a rank needs ", FormatBytes(saved.peak_bytes()), ", and may use ",
                        FormatBytes(saved.memory.bytes));
  }
  std::vector<std::string> unused_notes;
  ASSIGN_OR_RETURN(const ConfiguredRun asked, ConfigureCell(request, model, &unused_notes));
  return CheckPlanOfRun(request.line, asked, saved.prepared.compiled, &unused_notes);
}

}  // namespace

absl::StatusOr<PlanCheck> CheckSavedPlan(const std::string& file, const CellRequest& request,
                                         const ModelDefinition& model) {
  const absl::StatusOr<Cell> saved = PlanCell(ReplayOf(file, request), model);
  RETURN_IF_ERROR(NamingFile(file, saved.status()));
  ASSIGN_OR_RETURN(const std::string change, ChangeFor(*saved, request, model));
  const std::string of_request =
      absl::StrCat(" for ", request.label, " on ", Counted(request.ranks, "rank"), ": ");
  if (!change.empty()) {
    return PlanCheck{false, absl::StrCat(file, " does not hold", of_request, change)};
  }
  const double seconds = saved->prepared.estimated.step_seconds();
  return PlanCheck{true,
                   absl::StrCat(file, " holds", of_request, "a step of ", FormatSeconds(seconds),
                                ", peak ", FormatBytes(saved->peak_bytes()), " of a rank")};
}

}  // namespace tessera
