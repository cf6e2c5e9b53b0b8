#include "core/program/lower.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/ops/operator_list.h"
#include "core/program/copy_instruction.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

std::string Text(absl::string_view text) { return std::string(text.data(), text.size()); }

// Returns which operators an output or an updated state depends on.
std::vector<bool> NeededOps(const Graph& graph) {
  std::vector<bool> needed(graph.ops().size(), false);
  std::vector<ValueId> pending;
  for (const GraphOutput& output : graph.outputs()) pending.push_back(output.value);
  for (const State& state : graph.states()) pending.push_back(state.updated);
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
  Lowering(const Graph& graph, KernelChooser& chooser)
      : graph_(graph), chooser_(chooser), kernels_(&chooser, &program_) {
    program_.name = graph.name();
    program_.threads = chooser.processor().threads;
    value_of_.assign(graph.values().size(), kNone);
    for (const GraphOutput& output : graph.outputs()) results_.insert(output.value);
    for (const State& state : graph.states()) results_.insert(state.updated);
  }

  absl::StatusOr<Program> Run() {
    for (const GraphInput& input : graph_.inputs()) {
      const int32_t value = AddRoot(graph_.value(input.value));
      SetValue(input.value, value);
      program_.inputs.push_back({graph_.value(input.value).path, value});
    }
    for (const State& state : graph_.states()) {
      if (state.input == kNone) continue;
      SetValue(state.input, AddRoot(graph_.value(state.input)));
      if (state.updated != state.input) overwritten_.insert(value_of_[state.input]);
    }

    const std::vector<bool> needed = NeededOps(graph_);
    for (size_t id = 0; id < graph_.ops().size(); ++id) {
      if (needed[id]) RETURN_IF_ERROR(LowerOp(graph_.op(static_cast<OpId>(id))));
    }
    phase_ = Phase::kUpdate;
    for (const State& state : graph_.states()) {
      ProgramState lowered{state.path, state.role, kNone, kNone};
      if (state.input != kNone) lowered.input = value_of_[state.input];
      lowered.updated = value_of_[state.updated];
      if (state.updated != state.input) {
        ASSIGN_OR_RETURN(lowered.updated, Lasting(lowered.updated));
      }
      program_.states.push_back(std::move(lowered));
    }
    for (const GraphOutput& output : graph_.outputs()) {
      ASSIGN_OR_RETURN(const int32_t value, Lasting(value_of_[output.value]));
      program_.outputs.push_back({output.name, value});
    }
    return std::move(program_);
  }

 private:
  TensorType Realized(const TensorType& type) const {
    return {chooser_.catalogue().Realize(type.dtype), type.shape};
  }

  int32_t Root(int32_t value) const { return program_.TensorOf(value); }

  int32_t AddValue(ProgramValue value) {
    program_.values.push_back(std::move(value));
    uses_.emplace_back();
    views_.emplace_back();
    producer_.push_back(kNone);
    kept_.push_back(false);
    return static_cast<int32_t>(program_.values.size()) - 1;
  }

  void SetValue(ValueId id, int32_t value) {
    value_of_[id] = value;
    if (results_.contains(id)) kept_[Root(value)] = true;
  }

  int32_t AddRoot(const Value& value) {
    return AddTensor(value.path, Realized(value.type), value.role);
  }

  // A value in a buffer of its own.
  int32_t AddTensor(std::string path, TensorType type, Role role) {
    Buffer buffer;
    buffer.path = path;
    buffer.bytes = NumBytes(type);
    ProgramValue value;
    value.path = std::move(path);
    value.strides = RowMajorStrides(type.shape);
    value.type = std::move(type);
    value.role = role;
    value.buffer = static_cast<int32_t>(program_.buffers.size());
    program_.buffers.push_back(std::move(buffer));
    return AddValue(std::move(value));
  }

  int32_t AddView(std::string path, TensorType type, Role role, int32_t base,
                  const ViewPlacement& placement) {
    const ProgramValue& b = program_.values[base];
    ProgramValue view;
    view.path = std::move(path);
    view.type = std::move(type);
    view.strides = placement.strides;
    view.role = role;
    view.buffer = b.buffer;
    view.offset = b.offset + placement.offset * SizeOf(b.type.dtype);
    view.within = Root(base);
    const int32_t root = view.within;
    const int32_t id = AddValue(std::move(view));
    views_[root].push_back(id);
    return id;
  }

  // Adds the instruction and notes what it reads and writes.
  void Emit(Instruction instruction) {
    const int32_t index = static_cast<int32_t>(program_.instructions.size());
    for (size_t i = 0; i < instruction.inputs.size(); ++i) {
      uses_[instruction.inputs[i]].push_back({index, static_cast<int>(i)});
    }
    for (int32_t output : instruction.outputs) producer_[output] = index;
    program_.instructions.push_back(std::move(instruction));
  }

  absl::Status EmitCopy(int32_t source, int32_t target) {
    ASSIGN_OR_RETURN(Instruction copy, CopyInstruction(program_, kernels_, source, target, phase_));
    Emit(std::move(copy));
    return absl::OkStatus();
  }

  // The same value in row-major order: itself, or a copy that later readers share.
  absl::StatusOr<int32_t> RowMajor(int32_t id) {
    const ProgramValue& value = program_.values[id];
    if (IsRowMajor(value.type.shape, value.strides)) return id;
    auto [it, inserted] = copies_.try_emplace(id, kNone);
    if (inserted) {
      ASSIGN_OR_RETURN(it->second, Copy(id));
    }
    return it->second;
  }

  // A value that is there at the end of the step, in row-major order: itself, or a copy if it lies
  // in a state that the step updates.
  absl::StatusOr<int32_t> Lasting(int32_t id) {
    if (overwritten_.contains(Root(id))) return Copy(id);
    return RowMajor(id);
  }

  absl::StatusOr<int32_t> Copy(int32_t id) {
    const ProgramValue& value = program_.values[id];
    const int32_t copy = AddTensor(absl::StrCat(value.path, ".copy"), value.type, value.role);
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
    instruction.phase = op.phase;
    instruction.recomputed = op.recomputed;
    instruction.cost = op.kind->Cost(types);
    for (ValueId id : op.inputs) instruction.inputs.push_back(value_of_[id]);
    for (ValueId id : op.outputs) {
      SetValue(id, AddRoot(graph_.value(id)));
      instruction.outputs.push_back(value_of_[id]);
    }
    for (OpId earlier : op.after) {
      for (ValueId id : graph_.op(earlier).outputs) {
        if (value_of_[id] != kNone) instruction.after.push_back(value_of_[id]);
      }
    }
    KernelWork work{Text(op.kind->name()), op.attributes};
    if (std::optional<RandomDraw> draw = TakeDraw(outputs[0].shape, work.attributes)) {
      instruction.draw = static_cast<int32_t>(program_.draws.size());
      program_.draws.push_back(
          {draw->path, {draw->global, draw->start, outputs[0].shape, MeshLayout()}});
    }
    ASSIGN_OR_RETURN(instruction.kernel,
                     kernels_.Enter(std::move(work), instruction.inputs, instruction.outputs));
    const Kernel& kernel = *program_.KernelOf(instruction).kernel;
    for (size_t i = 0; i < instruction.inputs.size(); ++i) {
      if (!kernel.StridedInput(static_cast<int>(i))) {
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
      SetValue(op.outputs[i],
               AddView(output.path, Realized(output.type), output.role, base, *placement));
    }
    return absl::OkStatus();
  }

  absl::Status LowerAssembly(const Op& op, const OpTypes& types) {
    const Value& output = graph_.value(op.outputs[0]);
    const int32_t assembled = AddRoot(output);
    SetValue(op.outputs[0], assembled);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const ViewPlacement placement = op.kind->Part(types, static_cast<int>(i));
      const int32_t part = value_of_[op.inputs[i]];
      if (MoveInto(assembled, part, placement)) continue;
      const int32_t target = AddView(absl::StrCat(output.path, ".part", i),
                                     program_.values[part].type, output.role, assembled, placement);
      RETURN_IF_ERROR(EmitCopy(part, target));
    }
    return absl::OkStatus();
  }

  // A value that shares memory of a root, with the strides that it gets when the root moves.
  struct Moved {
    int32_t value;
    Strides strides;
  };

  // Makes the instruction that has computed `part`, or the root that `part` is a reshaped view of,
  // write it at `placement` in `assembled` instead of memory of its own. Returns false, and changes
  // nothing, if it cannot.
  bool MoveInto(int32_t assembled, int32_t part, const ViewPlacement& placement) {
    const int32_t root = Root(part);
    if (producer_[root] == kNone || kept_[root]) return false;
    const std::optional<std::vector<Moved>> moved = MovedStrides(root, part, placement.strides);
    if (!moved.has_value()) return false;
    for (const Moved& m : *moved) {
      if (!IsRowMajor(program_.values[m.value].type.shape, m.strides) && !AllowsStrides(m.value)) {
        return false;
      }
    }
    for (const Moved& m : *moved) {
      ProgramValue& value = program_.values[m.value];
      value.buffer = program_.values[assembled].buffer;
      value.offset += placement.offset * SizeOf(value.type.dtype);
      value.within = assembled;
      value.strides = m.strides;
      views_[assembled].push_back(m.value);
    }
    views_[root].clear();
    return true;
  }

  // The strides of `root` and its views if `part`, which is one of them, gets `strides`; nullopt if
  // strides cannot say it.
  std::optional<std::vector<Moved>> MovedStrides(int32_t root, int32_t part,
                                                 const Strides& strides) const {
    if (!CoversRoot(part)) return std::nullopt;
    const std::optional<Strides> root_strides = Reshaped(part, strides, root);
    if (!root_strides.has_value()) return std::nullopt;
    const bool row_major = IsRowMajor(program_.values[root].type.shape, *root_strides);
    std::vector<Moved> moved = {{root, *root_strides}};
    for (int32_t view : views_[root]) {
      if (row_major) {
        moved.push_back({view, program_.values[view].strides});
        continue;
      }
      std::optional<Strides> view_strides;
      if (CoversRoot(view)) view_strides = Reshaped(root, *root_strides, view);
      if (!view_strides.has_value()) return std::nullopt;
      moved.push_back({view, *std::move(view_strides)});
    }
    return moved;
  }

  // Whether a value is its root, or all of it in the same order.
  bool CoversRoot(int32_t id) const {
    const ProgramValue& value = program_.values[id];
    const ProgramValue& root = program_.values[Root(id)];
    return value.offset == root.offset && IsRowMajor(value.type.shape, value.strides) &&
           IsRowMajor(root.type.shape, root.strides) &&
           NumElements(value.type.shape) == NumElements(root.type.shape);
  }

  // The strides of `to`, a reshaped view of the same elements, if `from` has `strides`.
  std::optional<Strides> Reshaped(int32_t from, const Strides& strides, int32_t to) const {
    const TensorType& type = program_.values[from].type;
    const TensorType& reshaped = program_.values[to].type;
    if (type == reshaped) return strides;
    const Attributes none;
    static const Operator& reshape = *FindOperator("reshape");
    const std::optional<ViewPlacement> view = reshape.View(
        {absl::MakeConstSpan(&type, 1), absl::MakeConstSpan(&reshaped, 1), none}, 0, strides);
    if (!view.has_value() || view->offset != 0) return std::nullopt;
    return view->strides;
  }

  // Whether the instruction that writes a value, if there is one, and all that read it so far can
  // do so at any strides.
  bool AllowsStrides(int32_t id) const {
    if (producer_[id] != kNone) {
      const Instruction& producer = program_.instructions[producer_[id]];
      for (size_t j = 0; j < producer.outputs.size(); ++j) {
        if (producer.outputs[j] == id &&
            !program_.KernelOf(producer).kernel->StridedOutput(static_cast<int>(j))) {
          return false;
        }
      }
    }
    for (const auto& [reader, index] : uses_[id]) {
      const Instruction& instruction = program_.instructions[reader];
      if (!program_.KernelOf(instruction).kernel->StridedInput(index)) return false;
    }
    return true;
  }

  const Graph& graph_;
  KernelChooser& chooser_;
  Program program_;
  KernelTable kernels_;
  Phase phase_ = Phase::kForward;
  std::vector<int32_t> value_of_;                           // by ValueId
  absl::flat_hash_set<ValueId> results_;                    // outputs and updated states
  absl::flat_hash_set<int32_t> overwritten_;                // inputs of states that are updated
  absl::flat_hash_map<int32_t, int32_t> copies_;            // row-major copies
  std::vector<std::vector<std::pair<int32_t, int>>> uses_;  // by value: instruction, input
  std::vector<std::vector<int32_t>> views_;                 // by root
  std::vector<int32_t> producer_;                           // by value: instruction
  std::vector<bool> kept_;                                  // by root: it holds a result
};

}  // namespace

absl::StatusOr<Program> Lower(const Graph& graph, KernelChooser& chooser) {
  if (!graph.status().ok()) return graph.status();
  return Lowering(graph, chooser).Run();
}

}  // namespace tessera
