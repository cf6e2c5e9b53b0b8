// The parts of a Graph that every rewriting copies as they are.
#ifndef TESSERA_CORE_PLAN_COPY_GRAPH_H_
#define TESSERA_CORE_PLAN_COPY_GRAPH_H_

#include <functional>
#include <vector>

#include "core/graph/graph.h"

namespace tessera {

// Copies the names of the blocks.
void CopyBlocks(const Graph& from, Graph& to);

// Copies the states that `from` reads, and the names of its blocks. Enters the input values of the
// states in `copies`, by the values of `from`.
void CopyStatesAndBlocks(const Graph& from, Graph& to, std::vector<ValueId>& copies);

// Copies the updated values of states and the outputs, when all ops have been written. `copy_of`
// returns the value of `to` that one of `from` has become.
void CopyResults(const Graph& from, const std::function<ValueId(ValueId)>& copy_of, Graph& to);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_COPY_GRAPH_H_
