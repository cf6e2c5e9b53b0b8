// The flags of the tool that plans without ranks.
#ifndef TESSERA_TOOLS_PLAN_FLAGS_H_
#define TESSERA_TOOLS_PLAN_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/model.h"
#include "tools/plan/cell.h"

namespace tessera {

enum class PlanCommand {
  kTable,    // what each strategy costs
  kExplain,  // where the time of a step goes
  kDiff,     // what differs between two Plans
  kCosts,    // the prices of a step's requests
  kHolds,    // whether a saved Plan still holds
};

struct PlanCommandLine {
  bool help = false;
  bool version = false;
  PlanCommand command = PlanCommand::kTable;
  const ModelDefinition* model = nullptr;
  std::vector<CellRequest> requests;  // by strategy, and for each by the number of ranks
  bool fit = false;
  double tokens = 0;  // of a training; 0: no days are shown
  // Files as the user wrote them, or "". `save` and `trace` are for one request.
  std::string json, report, save, trace;
  std::string plan;  // the file that `holds` checks
};

// Parses all arguments: the command, unless the first one is a flag, and flags. InvalidArgument
// names the flag and the remedy.
absl::StatusOr<PlanCommandLine> ParsePlanCommandLine(const std::vector<std::string>& arguments);

// The text that --help prints. `program` is the command that starts this program.
std::string PlanHelp(const std::string& program);

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_FLAGS_H_
