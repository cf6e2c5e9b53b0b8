// Makes a Graph from parts that need not be trusted.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/graph/graph.h"
#include "core/ids/id.h"
#include "core/ids/table.h"
#include "core/status/status_macros.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

absl::Status Error(absl::string_view what, absl::string_view path, absl::string_view fault) {
  return absl::InvalidArgumentError(absl::StrCat(what, " ", Quote(path), ": ", fault));
}

// Checks everything that code which reads a Graph relies on.
class PartsChecker {
 public:
  explicit PartsChecker(const GraphParts& parts) : parts_(parts) {}

  absl::Status Check() {
    RETURN_IF_ERROR(CheckInputsAndStates());
    for (const ValueId id : parts_.values.ids()) RETURN_IF_ERROR(CheckValue(id));
    for (const OpId id : parts_.ops.ids()) RETURN_IF_ERROR(CheckOp(id));
    for (const GraphOutput& output : parts_.outputs) {
      if (!IsValue(output.value)) return Missing("output", output.name, "value", output.value);
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Missing(absl::string_view what, absl::string_view path,
                              absl::string_view missing, int32_t number) {
    return Error(what, path, absl::StrCat(missing, " ", number, " does not exist"));
  }
  template <typename Thing>
  static absl::Status Missing(absl::string_view what, absl::string_view path,
                              absl::string_view missing, Id<Thing> id) {
    return Missing(what, path, missing, id.index());
  }
  bool IsValue(ValueId id) const { return parts_.values.contains(id); }
  bool IsOp(OpId id) const { return parts_.ops.contains(id); }

  // Checks that each value without a producer is an input, or the input value of a state with the
  // same path.
  absl::Status CheckInputsAndStates() {
    declared_.assign(parts_.values.size(), false);
    for (const GraphInput& input : parts_.inputs) {
      if (!IsValue(input.value)) return Missing("input", input.origin, "value", input.value);
      const Value& value = parts_.values[input.value];
      RETURN_IF_ERROR(Declare("input", value.path, input.value));
      if (value.role != Role::kInput) return Error("input", value.path, "its role is another one");
      const int rank = static_cast<int>(value.type.shape.size());
      if (input.batch_dim < kNone || input.batch_dim >= rank) {
        return Error("input", value.path,
                     absl::StrCat("dimension ", input.batch_dim, " does not count its rows; it is ",
                                  TypeToString(value.type)));
      }
    }
    for (const State& state : parts_.states) {
      if (!IsValue(state.updated)) return Missing("state", state.path, "value", state.updated);
      if (parts_.values[state.updated].type != state.type) {
        return Error("state", state.path, "its updated value is of another type");
      }
      RETURN_IF_ERROR(CheckRegion("state", state.path, state.region, state.type));
      if (state.input == kNone) continue;
      if (!IsValue(state.input)) return Missing("state", state.path, "value", state.input);
      RETURN_IF_ERROR(Declare("state", state.path, state.input));
      const Value& value = parts_.values[state.input];
      if (value.path != state.path || value.type != state.type || value.role != state.role) {
        return Error("state", state.path, "its input value has another path, type or role");
      }
    }
    return absl::OkStatus();
  }

  // Records that an input or a state declares a value, which must have no producer.
  absl::Status Declare(absl::string_view what, absl::string_view path, ValueId id) {
    if (declared_[id]) return Error(what, path, "its value is declared twice");
    if (parts_.values[id].producer != kNone) return Error(what, path, "an op makes its value");
    declared_[id] = true;
    return absl::OkStatus();
  }

  absl::Status CheckValue(ValueId id) const {
    const Value& value = parts_.values[id];
    const auto error = [&](absl::string_view fault) { return Error("value", value.path, fault); };
    if (value.producer == kNone) {
      if (!declared_[id]) return error("no op makes it, and it is neither an input nor a state");
    } else if (!IsOp(value.producer)) {
      return Missing("value", value.path, "op", value.producer);
    } else {
      const std::vector<ValueId>& outputs = parts_.ops[value.producer].outputs;
      if (value.output_index < 0 || value.output_index >= static_cast<int>(outputs.size()) ||
          outputs[value.output_index] != id) {
        return error(absl::StrCat("op ", value.producer.index(), " does not make it"));
      }
    }
    for (ValueId target : {value.gradient_of, value.complete_gradient_of}) {
      if (target != kNone && !IsValue(target)) return Missing("value", value.path, "value", target);
    }
    return CheckRegion("value", value.path, value.region, value.type);
  }

  static absl::Status CheckRegion(absl::string_view what, absl::string_view path,
                                  const SharedRegion& region, const TensorType& type) {
    if (region == nullptr) return absl::OkStatus();
    const Shape &shape = type.shape, &start = region->start, &global = region->global;
    bool inside = start.size() == shape.size() && global.size() == shape.size();
    for (size_t d = 0; inside && d < shape.size(); ++d) {
      inside = start[d] >= 0 && global[d] >= shape[d] && start[d] <= global[d] - shape[d];
    }
    if (inside) return absl::OkStatus();
    return Error(what, path, "its region does not lie in the tensor that it is a part of");
  }

  absl::Status CheckOp(OpId id) const {
    const Op& op = parts_.ops[id];
    for (ValueId input : op.inputs) {
      if (!IsValue(input)) return Missing("op", op.path, "value", input);
      if (parts_.values[input].producer >= id) {
        return Error("op", op.path,
                     absl::StrCat("it reads ", Quote(parts_.values[input].path), ", made later"));
      }
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      if (!IsValue(op.outputs[i])) return Missing("op", op.path, "value", op.outputs[i]);
      const Value& output = parts_.values[op.outputs[i]];
      if (output.producer != id || output.output_index != static_cast<int>(i)) {
        return Error("op", op.path, absl::StrCat("another op makes ", Quote(output.path)));
      }
    }
    for (OpId earlier : op.after) {
      if (!IsOp(earlier) || earlier >= id) return Missing("op", op.path, "earlier op", earlier);
    }
    if (op.gradient_of != kNone && !IsOp(op.gradient_of)) {
      return Missing("op", op.path, "op", op.gradient_of);
    }
    if (op.block != kNone && !parts_.blocks.contains(op.block)) {
      return Missing("op", op.path, "block", op.block);
    }
    if (op.micro_batch < kNone) return Missing("op", op.path, "micro-batch", op.micro_batch);
    if (op.slice < kNone) return Missing("op", op.path, "slice", op.slice);
    return CheckTypes(op);
  }

  absl::Status CheckTypes(const Op& op) const {
    std::vector<TensorType> inputs, outputs;
    for (ValueId input : op.inputs) inputs.push_back(parts_.values[input].type);
    for (ValueId output : op.outputs) outputs.push_back(parts_.values[output].type);
    const absl::StatusOr<std::vector<TensorType>> inferred =
        op.kind->InferTypes(inputs, op.attributes);
    if (!inferred.ok()) {
      return Error("op", op.path, absl::StrCat(op.kind->name(), ": ", inferred.status().message()));
    }
    if (*inferred == outputs) return absl::OkStatus();
    return Error("op", op.path, absl::StrCat(op.kind->name(), " makes outputs of other types"));
  }

  const GraphParts& parts_;
  Table<ValueId, bool> declared_;
};

}  // namespace

absl::StatusOr<Graph> Graph::FromParts(GraphParts parts) {
  RETURN_IF_ERROR(PartsChecker(parts).Check());
  Graph graph(std::move(parts.name));
  graph.values_ = std::move(parts.values);
  graph.ops_ = std::move(parts.ops);
  graph.inputs_ = std::move(parts.inputs);
  graph.outputs_ = std::move(parts.outputs);
  graph.blocks_ = std::move(parts.blocks);
  for (const ValueId id : graph.values_.ids()) {
    const std::string& path = graph.values_[id].path;
    if (!graph.value_of_path_.Insert(path, id, graph.values_)) {
      return Error("value", path, "another value has this path");
    }
  }
  for (const Op& op : graph.ops_) {
    if (!op.outputs.empty() && graph.value(op.outputs[0]).path == op.path) continue;
    if (graph.FindValue(op.path) != kNone || !graph.op_paths_.insert(op.path).second) {
      return Error("op", op.path, "another op or value has this path");
    }
  }
  for (State& state : parts.states) {
    if (graph.FindState(state.path) != nullptr) {
      return Error("state", state.path, "another state has this path");
    }
    graph.AddState(std::move(state));
  }
  return graph;
}

}  // namespace tessera
