#include "core/plan/graph/copy_graph.h"

#include <string>

#include "core/ids/table.h"

namespace tessera {

void CopyBlocks(const Graph& from, Graph& to) {
  for (const std::string& block : from.blocks()) Scope scope(&to, block, Scope::kBlock);
}

void CopyStatesAndBlocks(const Graph& from, Graph& to, Table<ValueId, ValueId>& copies) {
  for (const State& state : from.states()) {
    if (state.input != kNone) copies[state.input] = to.AppendState(state);
  }
  CopyBlocks(from, to);
}

void CopyResults(const Graph& from, const std::function<ValueId(ValueId)>& copy_of, Graph& to) {
  for (const State& state : from.states()) {
    if (state.input == kNone) {
      to.WriteState(state, to.tensor(copy_of(state.updated)));
    } else if (state.updated != state.input) {
      to.SetState(state.path, to.tensor(copy_of(state.updated)));
    }
  }
  for (const GraphOutput& output : from.outputs()) {
    to.SetOutput(output.name, to.tensor(copy_of(output.value)));
  }
}

void CopyGradientLinksOfValues(const Graph& from, const Table<ValueId, ValueId>& values,
                               Graph& to) {
  const auto copy_of = [&](ValueId id) { return id == kNone ? ValueId() : values[id]; };
  for (const ValueId id : from.values().ids()) {
    const Value& value = from.value(id);
    to.SetGradientOfValue(values[id], copy_of(value.gradient_of));
    to.SetCompleteGradientOf(values[id], copy_of(value.complete_gradient_of));
  }
}

void CopyGradientLinks(const Graph& from, const Table<ValueId, ValueId>& values,
                       const Table<OpId, OpId>& ops, Graph& to) {
  CopyGradientLinksOfValues(from, values, to);
  for (const OpId id : from.ops().ids()) {
    const OpId forward = from.op(id).gradient_of;
    if (forward != kNone) to.SetGradientOf(ops[id], ops[forward]);
  }
}

}  // namespace tessera
