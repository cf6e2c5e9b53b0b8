// Lowers a Graph for one rank, by a Plan that decides nothing.
#ifndef TESSERA_CORE_PROGRAM_TESTING_LOWER_ON_ONE_RANK_H_
#define TESSERA_CORE_PROGRAM_TESTING_LOWER_ON_ONE_RANK_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/layout/traffic/collective_call.h"
#include "core/plan/layouts/graph_layouts.h"
#include "core/plan/layouts/layout_decisions.h"
#include "core/program/kernels/kernel_chooser.h"
#include "core/program/lower/flat_storage.h"
#include "core/program/lower/lower.h"
#include "core/program/program.h"
#include "core/status/status_macros.h"

namespace tessera {

inline absl::StatusOr<Program> LowerOnOneRank(const Graph& graph, KernelChooser& chooser) {
  const Mesh mesh;
  ASSIGN_OR_RETURN(const LayoutDecisions decisions,
                   FindDecisions(Stage(), absl::MakeConstSpan(&graph, 1), mesh));
  ASSIGN_OR_RETURN(const GraphLayouts layouts, LayOutGraph(graph, 0, mesh, decisions));
  const RingPrices prices(/*seconds_per_step=*/0, /*seconds_per_byte=*/0);
  RedistributionFinder finder(mesh, &prices);
  const FlatStorage no_groups;
  return Lower(graph, {layouts, decisions, no_groups, finder}, chooser);
}

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_TESTING_LOWER_ON_ONE_RANK_H_
