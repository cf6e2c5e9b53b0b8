#include "core/program/lower.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/ops/operator_list.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Which operators an output or a state left behind depends on.
std::vector<bool> NeededOps(const Graph& graph) {
  std::vector<bool> needed(graph.ops().size(), false);
  std::vector<ValueId> pending;
  for (const GraphOutput& output : graph.outputs()) pending.push_back(output.value);
  for (const State& state : graph.states()) pending.push_back(state.left);
  while (!pending.empty()) {
    const OpId op = graph.value(pending.back()).producer;
    pending.pop_back();
    if (op == kNone || needed[op]) continue;
    needed[op] = true;
    for (ValueId input : graph.op(op).inputs) pending.push_back(input);
  }
  return needed;
}

class Lowering {
 public:
  Lowering(const Graph& graph, KernelChooser& chooser) : graph_(graph), chooser_(chooser) {
    program_.name = graph.name();
    program_.threads = chooser.processor().threads;
    value_of_.assign(graph.values().size(), kNone);
  }

  absl::StatusOr<Program> Run() {
    for (const GraphInput& input : graph_.inputs()) {
      const int32_t value = AddRoot(graph_.value(input.value));
      value_of_[input.value] = value;
      program_.inputs.push_back({graph_.value(input.value).path, value});
    }
    for (const State& state : graph_.states()) {
      if (state.given != kNone) value_of_[state.given] = AddRoot(graph_.value(state.given));
    }
    for (const GraphOutput& output : graph_.outputs()) fixed_.insert({output.value, true});
    for (const State& state : graph_.states()) fixed_.insert({state.left, true});

    const std::vector<bool> needed = NeededOps(graph_);
    for (size_t id = 0; id < graph_.ops().size(); ++id) {
      if (needed[id]) RETURN_IF_ERROR(LowerOp(graph_.op(static_cast<OpId>(id))));
    }
    for (const State& state : graph_.states()) {
      ProgramState lowered{state.path, state.role, kNone, kNone};
      if (state.given != kNone) lowered.given = value_of_[state.given];
      ASSIGN_OR_RETURN(lowered.left, RowMajor(value_of_[state.left]));
      program_.states.push_back(std::move(lowered));
    }
    for (const GraphOutput& output : graph_.outputs()) {
      ASSIGN_OR_RETURN(const int32_t value, RowMajor(value_of_[output.value]));
      program_.outputs.push_back({output.name, value});
    }
    return std::move(program_);
  }

 private:
  TensorType Realized(const TensorType& type) const {
    return {chooser_.backend().Realize(type.dtype), type.shape};
  }

  int32_t AddValue(ProgramValue value) {
    program_.values.push_back(std::move(value));
    uses_.emplace_back();
    views_.emplace_back();
    producer_.push_back(kNone);
    return static_cast<int32_t>(program_.values.size()) - 1;
  }

  int32_t AddRoot(const Value& value) {
    ProgramValue root;
    root.path = value.path;
    root.type = Realized(value.type);
    root.strides = RowMajorStrides(value.type.shape);
    root.role = value.role;
    const int32_t id = AddValue(std::move(root));
    program_.values[id].root = id;
    return id;
  }

  int32_t AddView(std::string path, TensorType type, Role role, int32_t base,
                  const ViewPlacement& placement) {
    const ProgramValue& b = program_.values[base];
    ProgramValue view;
    view.path = std::move(path);
    view.type = std::move(type);
    view.strides = placement.strides;
    view.role = role;
    view.root = b.root;
    view.root_offset = b.root_offset + placement.offset;
    const int32_t root = b.root;
    const int32_t id = AddValue(std::move(view));
    views_[root].push_back(id);
    return id;
  }

  // Adds the instruction and notes who reads what.
  void Emit(Instruction instruction) {
    const int32_t index = static_cast<int32_t>(program_.instructions.size());
    for (size_t i = 0; i < instruction.inputs.size(); ++i) {
      uses_[instruction.inputs[i]].push_back({index, static_cast<int>(i)});
    }
    for (int32_t output : instruction.outputs) producer_[output] = index;
    program_.instructions.push_back(std::move(instruction));
  }

  // Copies `source` into `target`, which has the same type.
  absl::Status EmitCopy(int32_t source, int32_t target) {
    Instruction copy;
    copy.op = FindOperator("copy");
    TESSERA_CHECK(copy.op != nullptr);
    copy.path = program_.values[target].path;
    copy.inputs = {source};
    copy.outputs = {target};
    copy.phase = phase_;
    ASSIGN_OR_RETURN(copy.kernel, chooser_.Choose(program_.RequestOf(copy)));
    const TensorType& type = program_.values[source].type;
    copy.cost.bytes = 2.0 * static_cast<double>(NumBytes(type));
    Emit(std::move(copy));
    return absl::OkStatus();
  }

  // The same value in row-major order: itself, or a copy that later readers share.
  absl::StatusOr<int32_t> RowMajor(int32_t id) {
    const ProgramValue& value = program_.values[id];
    if (IsRowMajor(value.type.shape, value.strides)) return id;
    auto [it, inserted] = copies_.try_emplace(id, kNone);
    if (!inserted) return it->second;
    ProgramValue root;
    root.path = absl::StrCat(value.path, ".copy");
    root.type = value.type;
    root.strides = RowMajorStrides(value.type.shape);
    root.role = value.role;
    const int32_t copy = AddValue(std::move(root));
    program_.values[copy].root = copy;
    it->second = copy;
    RETURN_IF_ERROR(EmitCopy(id, copy));
    return copy;
  }

  absl::Status LowerOp(const Op& op) {
    phase_ = op.phase;
    std::vector<TensorType> inputs = graph_.TypesOf(op.inputs);
    std::vector<TensorType> outputs = graph_.TypesOf(op.outputs);
    const OpTypes types{inputs, outputs, op.attributes};
    if (op.kind->is_view()) return LowerView(op, types);
    if (op.kind->is_assembly()) return LowerAssembly(op, types);

    Instruction instruction;
    instruction.path = op.path;
    instruction.op = op.kind;
    instruction.attributes = op.attributes;
    instruction.phase = op.phase;
    instruction.recomputed = op.recomputed;
    instruction.cost = op.kind->Cost(types);
    for (ValueId id : op.inputs) instruction.inputs.push_back(value_of_[id]);
    for (ValueId id : op.outputs) {
      value_of_[id] = AddRoot(graph_.value(id));
      instruction.outputs.push_back(value_of_[id]);
    }
    for (OpId earlier : op.after) {
      for (ValueId id : graph_.op(earlier).outputs) {
        if (value_of_[id] != kNone) instruction.after.push_back(value_of_[id]);
      }
    }
    ASSIGN_OR_RETURN(instruction.kernel, chooser_.Choose(program_.RequestOf(instruction)));
    for (size_t i = 0; i < instruction.inputs.size(); ++i) {
      if (!instruction.kernel->StridedInput(static_cast<int>(i))) {
        ASSIGN_OR_RETURN(instruction.inputs[i], RowMajor(instruction.inputs[i]));
      }
    }
    Emit(std::move(instruction));
    return absl::OkStatus();
  }

  absl::Status LowerView(const Op& op, const OpTypes& types) {
    int32_t base = value_of_[op.inputs[0]];
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const Value& output = graph_.value(op.outputs[i]);
      std::optional<ViewPlacement> placement =
          op.kind->View(types, static_cast<int>(i), program_.values[base].strides);
      if (!placement.has_value()) {
        ASSIGN_OR_RETURN(base, RowMajor(base));
        placement = op.kind->View(types, static_cast<int>(i), program_.values[base].strides);
        TESSERA_CHECK(placement.has_value()) << op.path;
      }
      value_of_[op.outputs[i]] =
          AddView(output.path, Realized(output.type), output.role, base, *placement);
    }
    return absl::OkStatus();
  }

  absl::Status LowerAssembly(const Op& op, const OpTypes& types) {
    const Value& output = graph_.value(op.outputs[0]);
    const int32_t whole = AddRoot(output);
    value_of_[op.outputs[0]] = whole;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const ViewPlacement placement = op.kind->Part(types, static_cast<int>(i));
      const int32_t part = value_of_[op.inputs[i]];
      if (fixed_.count(op.inputs[i]) == 0 && CanPlace(part, placement)) {
        Place(part, whole, placement);
      } else {
        const int32_t target = AddView(absl::StrCat(output.path, ".part", i),
                                       program_.values[part].type, output.role, whole, placement);
        RETURN_IF_ERROR(EmitCopy(part, target));
      }
    }
    return absl::OkStatus();
  }

  // Whether a value that has been computed into memory of its own can be computed into a part of
  // another's instead.
  bool CanPlace(int32_t part, const ViewPlacement& placement) const {
    const ProgramValue& value = program_.values[part];
    if (value.root != part || producer_[part] == kNone) return false;  // a view, input or state
    if (IsRowMajor(value.type.shape, placement.strides)) return true;
    if (!views_[part].empty()) return false;
    const Instruction& producer = program_.instructions[producer_[part]];
    for (size_t j = 0; j < producer.outputs.size(); ++j) {
      if (producer.outputs[j] == part && !producer.kernel->StridedOutput(static_cast<int>(j))) {
        return false;
      }
    }
    for (const auto& [reader, index] : uses_[part]) {
      if (!program_.instructions[reader].kernel->StridedInput(index)) return false;
    }
    return true;
  }

  void Place(int32_t part, int32_t whole, const ViewPlacement& placement) {
    ProgramValue& value = program_.values[part];
    value.root = whole;
    value.root_offset = placement.offset;
    value.strides = placement.strides;
    views_[whole].push_back(part);
    for (int32_t view : views_[part]) {
      program_.values[view].root = whole;
      program_.values[view].root_offset += placement.offset;
      views_[whole].push_back(view);
    }
    views_[part].clear();
  }

  const Graph& graph_;
  KernelChooser& chooser_;
  Program program_;
  Phase phase_ = Phase::kForward;
  std::vector<int32_t> value_of_;                           // by ValueId
  absl::flat_hash_map<ValueId, bool> fixed_;                // outputs and states left
  absl::flat_hash_map<int32_t, int32_t> copies_;            // row-major copies
  std::vector<std::vector<std::pair<int32_t, int>>> uses_;  // by value: instruction, input
  std::vector<std::vector<int32_t>> views_;                 // by root
  std::vector<int32_t> producer_;                           // by value: instruction
};

}  // namespace

absl::StatusOr<Program> Lower(const Graph& graph, KernelChooser& chooser) {
  if (!graph.status().ok()) return graph.status();
  return Lowering(graph, chooser).Run();
}

}  // namespace tessera
