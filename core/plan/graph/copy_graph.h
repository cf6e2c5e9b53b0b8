// Copies the parts of a Graph that no rewriting changes.
#ifndef TESSERA_CORE_PLAN_GRAPH_COPY_GRAPH_H_
#define TESSERA_CORE_PLAN_GRAPH_COPY_GRAPH_H_

#include <functional>
#include <vector>

#include "core/graph/graph.h"
#include "core/ids/table.h"

namespace tessera {

// Copies the names of the blocks.
void CopyBlocks(const Graph& from, Graph& to);

// Copies the states that `from` reads, and the names of its blocks. Records the new input values of
// the states in `copies`, which is indexed by the values of `from`.
void CopyStatesAndBlocks(const Graph& from, Graph& to, Table<ValueId, ValueId>& copies);

// Copies the updated values of states and the outputs. Call it after all ops have been copied.
// `copy_of` maps a value of `from` to its value in `to`.
void CopyResults(const Graph& from, const std::function<ValueId(ValueId)>& copy_of, Graph& to);

// Copies what values are the gradients of. Call it after all ops have been copied. `values` maps
// the values of `from` to those of `to`; each must have been copied.
void CopyGradientLinksOfValues(const Graph& from, const Table<ValueId, ValueId>& values, Graph& to);

// Copies what ops and values are the gradients of. Call it after all ops have been copied. `values`
// and `ops` map those of `from` to those of `to`; every value and op must have been copied.
void CopyGradientLinks(const Graph& from, const Table<ValueId, ValueId>& values,
                       const Table<OpId, OpId>& ops, Graph& to);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_GRAPH_COPY_GRAPH_H_
