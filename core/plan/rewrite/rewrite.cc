#include "core/plan/rewrite/rewrite.h"

#include <vector>

#include "core/plan/rewrite/micro_batches.h"
#include "core/plan/rewrite/recompute.h"
#include "core/status/status_macros.h"

namespace tessera {

absl::StatusOr<Graph> RewriteGraph(Graph graph, const PlanPart& part,
                                   absl::Span<const std::string> separate) {
  if (!part.recompute().empty()) {
    const std::vector<std::string> blocks(part.recompute().begin(), part.recompute().end());
    ASSIGN_OR_RETURN(graph, RecomputeBlocks(graph, blocks));
  }
  if (part.micro_batches() == 0 || part.micro_batches() == 1) return graph;
  return SplitIntoMicroBatches(graph, part.micro_batches(), separate);
}

}  // namespace tessera
