#include "core/plan/rewrite.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/plan/check.h"
#include "core/plan/micro_batches.h"
#include "core/plan/recompute.h"
#include "core/status/status_macros.h"

namespace tessera {

absl::StatusOr<Graph> RewriteGraph(Graph graph, const PlanPart& part) {
  RETURN_IF_ERROR(CheckPlanPart(graph, part));
  if (!part.recompute().empty()) {
    const std::vector<std::string> blocks(part.recompute().begin(), part.recompute().end());
    ASSIGN_OR_RETURN(graph, RecomputeBlocks(graph, blocks));
  }
  return CutIntoMicroBatches(graph, std::max<int64_t>(part.micro_batches(), 1));
}

}  // namespace tessera
