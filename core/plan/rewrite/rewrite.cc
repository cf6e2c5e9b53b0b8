#include "core/plan/rewrite/rewrite.h"

#include <optional>
#include <utility>
#include <vector>

#include "core/plan/rewrite/keep_logits.h"
#include "core/plan/rewrite/micro_batches.h"
#include "core/plan/rewrite/recompute.h"
#include "core/plan/rewrite/recomputed_ops.h"
#include "core/status/status_macros.h"

namespace tessera {

absl::StatusOr<Graph> RewriteGraph(const Graph& recorded, const PlanPart& part,
                                   absl::Span<const std::string> separate) {
  const std::vector<std::string> recompute(part.recompute().begin(), part.recompute().end());
  const Graph* graph = &recorded;
  std::optional<Graph> rewritten;
  if (part.logits() == PlanPart::KEPT) {
    ASSIGN_OR_RETURN(const RecomputedOps recomputed, FindRecomputedOps(*graph, recompute));
    graph = &rewritten.emplace(KeepLogits(*graph, recomputed));
  }
  if (!recompute.empty()) {
    ASSIGN_OR_RETURN(rewritten, Recompute(*graph, recompute));
    graph = &*rewritten;
  }
  if (part.micro_batches() != 0 && part.micro_batches() != 1) {
    return SplitIntoMicroBatches(*graph, part.micro_batches(), separate);
  }
  if (!rewritten.has_value()) return recorded;
  return *std::move(rewritten);
}

bool Rewrites(const PlanPart& part) {
  return part.logits() == PlanPart::KEPT || !part.recompute().empty() || part.micro_batches() > 1;
}

}  // namespace tessera
