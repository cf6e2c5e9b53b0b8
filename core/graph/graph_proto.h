// Converts Graphs to messages (core/proto/graph.proto) and back. A Graph that is read equals the
// one that was written.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_GRAPH_GRAPH_PROTO_H_
#define TESSERA_CORE_GRAPH_GRAPH_PROTO_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "core/proto/graph.pb.h"

namespace tessera {

// Returns the operator of this name, or nullptr: FindOperator (core/ops/operator_list.h).
using OperatorFinder = absl::FunctionRef<const Operator*(absl::string_view name)>;

// The message does not contain an error that the Graph has recorded (Graph::status).
GraphProto GraphToProto(const Graph& graph);

// Reads a message, which need not be trusted. InvalidArgument, in one line, if an operator does not
// exist, a type or attribute is out of range, or the parts do not form a Graph (see
// Graph::FromParts).
absl::StatusOr<Graph> GraphFromProto(const GraphProto& message, OperatorFinder find_operator);

}  // namespace tessera

#endif  // TESSERA_CORE_GRAPH_GRAPH_PROTO_H_
