// How the ranks of a Program divide the work of a training step among them.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_COST_WORK_DIVISION_H_
#define TESSERA_CORE_COST_WORK_DIVISION_H_

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"
#include "core/program/program.h"
#include "core/proto/plan.pb.h"

namespace tessera {

struct WorkDivision {
  // The FLOPs of the forward and backward pass, as if on one device, without recomputation.
  double flops = 0;
  // `flops` divided by those of the rank that has most: how many times as fast as one rank all
  // ranks can be at best. Updates, which data parallelism repeats on all ranks, are not counted.
  double speedup = 1;
  // By mesh axis: the share of these FLOPs that all ranks along the axis repeat.
  std::vector<double> repeated;
  // The fewest rows of an input that are split over more ranks: of `parts` parts, only `rows` are
  // not empty. 0: there is no such input.
  int64_t rows = 0;
  int64_t parts = 0;
};

// Returns the division of the step that `program` runs. `recorded` is its Graph, and of
// `rewritten`, the same as the Plan has rewritten it, only the inputs are read. `part` is that of
// the completed Plan.
WorkDivision DivisionOf(const Graph& recorded, const Graph& rewritten, const PlanPart& part,
                        const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_WORK_DIVISION_H_
