// The ops that a Plan's field `recompute` names.
#ifndef TESSERA_CORE_PLAN_REWRITE_RECOMPUTED_OPS_H_
#define TESSERA_CORE_PLAN_REWRITE_RECOMPUTED_OPS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/ids/table.h"

namespace tessera {

struct RecomputedOps {
  // The block of an op that belongs to a block that is recomputed as a whole, in the forward or the
  // backward pass; kNone for all other ops.
  Table<OpId, BlockId> whole_block;
  // Whether an op of the forward pass is recomputed by itself, because it is named, or is in a
  // scope that is named, and not in a block that is recomputed as a whole.
  Table<OpId, bool> by_itself;
  // The block of an op, or the one whose scope has the op's path: casts that a lower precision adds
  // belong to no block. kNone: neither.
  Table<OpId, BlockId> home;

  // Returns whether an op of the forward pass is recomputed.
  bool Has(OpId op) const { return whole_block[op] != kNone || by_itself[op]; }
};

// Finds the ops that `paths` name: patterns (core/text/path_pattern.h) of blocks, of other scopes
// and of operators. A block that is named, or that is in a scope that is named, is recomputed as a
// whole, whatever else names scopes in it. The path of an operator that runs slice by slice names
// all of its slices. Casts of parameters are never recomputed.
//
// InvalidArgument, in one line, if a pattern matches no block and no op of the forward pass; the
// error names the blocks that there are.
absl::StatusOr<RecomputedOps> FindRecomputedOps(const Graph& graph,
                                                absl::Span<const std::string> paths);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_REWRITE_RECOMPUTED_OPS_H_
