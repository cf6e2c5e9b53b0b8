#include "core/plan/check.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/plan/recompute.h"

namespace tessera {

absl::Status CheckPlanPart(const Graph& graph, const PlanPart& part) {
  if (!part.graph().empty() && part.graph() != graph.name()) {
    return absl::InvalidArgumentError(absl::StrCat("the Plan's part for graph '", part.graph(),
                                                   "' is not for graph '", graph.name(), "'"));
  }
  if (!part.fingerprint().empty()) {
    const std::string fingerprint = graph.Fingerprint();
    if (part.fingerprint() != fingerprint) {
      return absl::InvalidArgumentError(
          absl::StrCat("the Plan was made for another graph '", graph.name(),
                       "': its fingerprint is ", part.fingerprint(), ", this graph's ", fingerprint,
                       ". Model, sizes and optimizer must be those that it was made with"));
    }
  }
  if (part.micro_batches() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("micro_batches: ", part.micro_batches(), " turns; there must be at least 1"));
  }
  return CheckBlocks(graph,
                     std::vector<std::string>(part.recompute().begin(), part.recompute().end()));
}

}  // namespace tessera
