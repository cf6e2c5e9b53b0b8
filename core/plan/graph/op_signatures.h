// The signatures of an op of a Graph, for fitting them to layouts in time.
#ifndef TESSERA_CORE_PLAN_GRAPH_OP_SIGNATURES_H_
#define TESSERA_CORE_PLAN_GRAPH_OP_SIGNATURES_H_

#include <utility>
#include <vector>

#include "core/graph/graph.h"
#include "core/layout/layout.h"
#include "core/layout/signature_fit.h"

namespace tessera {

// The signatures and the types of one op. Thread safety: immutable after construction.
class OpSignatures {
 public:
  OpSignatures(const Graph& graph, const Op& op)
      : OpSignatures(graph, op, graph.TypesOf(op.outputs)) {}
  // The same for an op whose outputs are not in the Graph yet; `outputs` are their types.
  OpSignatures(const Graph& graph, const Op& op, std::vector<TensorType> outputs)
      : inputs_(graph.TypesOf(op.inputs)),
        outputs_(std::move(outputs)),
        signatures_(op.kind->Signatures({inputs_, outputs_, op.attributes})) {}

  // Valid as long as this object.
  FittedUse fitted() const { return {signatures_, inputs_, outputs_}; }

 private:
  std::vector<TensorType> inputs_, outputs_;
  std::vector<Signature> signatures_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_GRAPH_OP_SIGNATURES_H_
