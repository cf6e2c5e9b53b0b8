// Ops that are computed in parts: ranks communicate between the operators that such an op is made
// of (Operator::RecordInParts). A layer norm whose last dimension is split is one: each rank sums
// its part of a row, the sums are completed, and then each normalizes its part.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_PLAN_REWRITE_IN_PARTS_H_
#define TESSERA_CORE_PLAN_REWRITE_IN_PARTS_H_

#include <vector>

#include "core/graph/graph.h"
#include "core/ids/table.h"

namespace tessera {

// The operators that one op is made of.
struct OpParts {
  // Has an input for each input of the op, in its order; its ops are the parts.
  Graph graph;
  std::vector<ValueId> outputs;  // of `graph`: the outputs of the op
};

// Returns the parts of an op that has signatures in parts.
OpParts PartsOf(const Graph& graph, const Op& op);

// Returns the Graph in which the parts of each op that `in_parts` marks stand in its place. They
// have its phase, block and origin, and are numbered by Op::part. The values that it computes keep
// their paths; what is between the parts, and the ops that compute it, have paths in the scope of
// its path.
//
// This rewriting comes after layouts on a mesh have been chosen, which say what is computed in
// parts; so an op may be a slice, and values between its parts then have regions, too. It comes
// before kept logits, recomputation and micro-batches, which change, repeat and split existing ops.
Graph WriteInParts(const Graph& graph, const Table<OpId, bool>& in_parts);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_REWRITE_IN_PARTS_H_
