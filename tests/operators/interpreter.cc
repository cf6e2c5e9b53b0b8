#include "tests/operators/interpreter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/status/status_macros.h"
#include "tests/operators/run_kernel.h"

namespace tessera::operator_tests {

absl::StatusOr<Table<ValueId, Array>> Interpret(
    const Graph& graph, Backend& backend, const std::map<std::string, std::vector<double>>& given) {
  RETURN_IF_ERROR(graph.status());
  Table<ValueId, Array> values(graph.values().size());
  for (const ValueId id : values.ids()) {
    const Value& value = graph.value(id);
    if (value.producer != kNone) continue;
    const auto it = given.find(value.path);
    if (it == given.end()) {
      return absl::NotFoundError(absl::StrCat("no elements for '", value.path, "' are given"));
    }
    if (static_cast<int64_t>(it->second.size()) != NumElements(value.type.shape)) {
      return absl::InvalidArgumentError(absl::StrCat("'", value.path, "' is ",
                                                     TypeToString(value.type), "; ",
                                                     it->second.size(), " elements are given"));
    }
    values[id] = MakeArray({backend.Realize(value.type.dtype), value.type.shape}, it->second);
  }
  for (const Op& op : graph.ops()) {
    std::vector<Array> inputs;
    for (ValueId id : op.inputs) inputs.push_back(values[id]);
    absl::StatusOr<std::vector<Array>> outputs =
        RunOperator(backend, *op.kind, op.attributes, inputs, graph.TypesOf(op.outputs));
    if (!outputs.ok()) {
      return absl::Status(outputs.status().code(),
                          absl::StrCat("'", op.path, "': ", outputs.status().message()));
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) values[op.outputs[i]] = std::move((*outputs)[i]);
  }
  return values;
}

}  // namespace tessera::operator_tests
