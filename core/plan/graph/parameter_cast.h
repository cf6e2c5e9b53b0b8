// Casts of parameters to lower precision (precision.h), which are between a parameter and its
// readers.
#ifndef TESSERA_CORE_PLAN_GRAPH_PARAMETER_CAST_H_
#define TESSERA_CORE_PLAN_GRAPH_PARAMETER_CAST_H_

#include "core/graph/graph.h"
#include "core/ops/operator_list.h"

namespace tessera {

// Returns whether an op casts a parameter to fewer bits. The op runs where the parameter is stored,
// so that fewer bits are gathered; its output is gathered as the parameter would be.
inline bool IsParameterCast(const Graph& graph, const Op& op) {
  static const Operator* const cast = FindOperator("cast");
  if (op.kind != cast) return false;
  const Value& from = graph.value(op.inputs[0]);
  const Value& to = graph.value(op.outputs[0]);
  return from.role == Role::kParameter && from.producer == kNone &&
         SizeOf(to.type.dtype) < SizeOf(from.type.dtype);
}

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_GRAPH_PARAMETER_CAST_H_
