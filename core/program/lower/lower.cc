#include "core/program/lower/lower.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/plan/graph/parameter_cast.h"
#include "core/program/lower/lowered_values.h"
#include "core/program/lower/program_builder.h"
#include "core/program/lower/value_layouts.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

std::string Text(absl::string_view text) { return std::string(text.data(), text.size()); }

// Returns, by operator, whether an output or an updated state depends on it.
Table<OpId, bool> NeededOps(const Graph& graph) {
  Table<OpId, bool> needed(graph.ops().size(), false);
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

// Returns, by value, the op that assembles the value with the other slices, if nothing else reads
// the value; kNone otherwise. The result is empty if the Graph has no slices.
Table<ValueId, OpId> AssembliesOfSlices(const Graph& graph) {
  const auto sliced = [](const Op& op) { return op.slice != kNone; };
  if (absl::c_none_of(graph.ops(), sliced)) return {};
  Table<ValueId, int> readers(graph.values().size(), 0);
  for (const Op& op : graph.ops()) {
    for (ValueId input : op.inputs) ++readers[input];
  }
  for (const GraphOutput& output : graph.outputs()) ++readers[output.value];
  for (const State& state : graph.states()) ++readers[state.updated];
  Table<ValueId, OpId> assemblies(graph.values().size(), kNone);
  for (const OpId id : graph.ops().ids()) {
    if (!graph.op(id).kind->is_assembly()) continue;
    for (ValueId input : graph.op(id).inputs) {
      const OpId producer = graph.value(input).producer;
      if (producer == kNone || !sliced(graph.op(producer)) || readers[input] != 1) continue;
      assemblies[input] = id;
    }
  }
  return assemblies;
}

// Lowers one Graph: emits the instructions of its needed ops in order.
class Lowering {
 public:
  Lowering(const Graph& graph, const MeshDecisions& mesh, KernelChooser& chooser)
      : graph_(graph),
        on_mesh_(mesh.finder.mesh().num_axes() > 0),
        needed_(NeededOps(graph)),
        assembly_of_(AssembliesOfSlices(graph)),
        builder_(graph.name(), mesh.finder.mesh(), &chooser),
        values_(graph,
                ValueLayouts(graph, mesh.finder.mesh(), mesh.layouts, mesh.decisions, mesh.storage),
                mesh.storage, needed_, mesh.finder, chooser.catalogue(), &builder_) {}

  absl::StatusOr<Program> Run() {
    builder_.Reserve(graph_.ops().size(), graph_.values().size());
    for (const GraphInput& input : graph_.inputs()) {
      values_.AddInput(input.value);
      builder_.program().inputs.push_back(
          {graph_.value(input.value).path, values_.AsMade(input.value)});
    }
    for (const State& state : graph_.states()) {
      if (state.input == kNone) continue;
      values_.AddInput(state.input);
      if (state.updated != state.input) overwritten_.insert(values_.AsMade(state.input));
    }
    // On a mesh, casts of parameters come first, so that no gather waits for its cast.
    const auto comes_first = [&](OpId id) {
      return on_mesh_ && IsParameterCast(graph_, graph_.op(id));
    };
    for (const OpId id : graph_.ops().ids()) {
      if (needed_[id] && comes_first(id)) RETURN_IF_ERROR(LowerOp(id));
    }
    for (const OpId id : graph_.ops().ids()) {
      if (needed_[id] && !comes_first(id)) RETURN_IF_ERROR(LowerOp(id));
    }
    values_.BeginPeriod(Phase::kUpdate, kNone);
    RETURN_IF_ERROR(AddResults());
    return std::move(builder_.program());
  }

 private:
  absl::Status LowerOp(OpId id) {
    const Op& op = graph_.op(id);
    RETURN_IF_ERROR(values_.CheckOutputs(id));
    values_.BeginPeriod(op.phase, op.micro_batch);
    if (op.kind->is_view()) {
      RETURN_IF_ERROR(values_.AddViews(id));
    } else if (op.kind->is_assembly()) {
      RETURN_IF_ERROR(LowerAssembly(id));
    } else if (values_.IsOnGroup(id)) {
      return values_.AddOnGroup(id);
    } else {
      RETURN_IF_ERROR(LowerKernel(id));
    }
    for (ValueId output : op.outputs) RETURN_IF_ERROR(values_.CompleteOutput(output));
    if (!assembly_of_.empty()) RETURN_IF_ERROR(AssembleSlices(op));
    return absl::OkStatus();
  }

  // Moves the outputs of a slice into the value that they are assembled in, as soon as they are
  // computed. Otherwise, where a kernel cannot write a part of a larger tensor, all slices and the
  // assembled value would be in memory together.
  absl::Status AssembleSlices(const Op& op) {
    for (ValueId output : op.outputs) {
      const OpId assembly = assembly_of_[output];
      if (assembly == kNone || !needed_[assembly]) continue;
      const std::vector<ValueId>& inputs = graph_.op(assembly).inputs;
      const size_t i = absl::c_find(inputs, output) - inputs.begin();
      RETURN_IF_ERROR(PutInput(assembly, i));
    }
    return absl::OkStatus();
  }

  // Emits the kernel of an op on what the rank holds of its operands.
  absl::Status LowerKernel(OpId id) {
    const Op& op = graph_.op(id);
    const LocalOp local = values_.Localized(id);
    Instruction instruction;
    instruction.path = op.path;
    instruction.recomputed = op.recomputed;
    instruction.block = op.block;
    instruction.cost = op.kind->Cost(local.types());
    ASSIGN_OR_RETURN(instruction.inputs, values_.InputsOf(id));
    instruction.outputs.reserve(op.outputs.size());
    for (ValueId output : op.outputs) instruction.outputs.push_back(values_.AddOutput(output));
    for (OpId earlier : op.after) {
      for (ValueId value : graph_.op(earlier).outputs) {
        if (values_.AsMade(value) != kNone) instruction.after.push_back(values_.AsMade(value));
      }
    }
    instruction.draw = AddDrawOf(op);
    KernelWork work{Text(op.kind->name()), local.attributes};
    TakeDraw(local.outputs[0].shape, work.attributes);
    return builder_.EmitKernel(std::move(work), std::move(instruction));
  }

  // Adds the random draw of an op, and returns its id; kNone if it draws nothing.
  DrawId AddDrawOf(const Op& op) {
    const Shape& shape = graph_.value(op.outputs[0]).type.shape;
    std::optional<RandomDraw> draw = DrawOf(shape, op.attributes);
    if (!draw.has_value()) return kNone;
    const ValueLayouts& layouts = values_.layouts();
    const MeshLayout& layout = layouts.layout(layouts.MadeIn(op.outputs[0]));
    return builder_.program().draws.push_back(
        {draw->path, {draw->global, draw->start, shape, layout}});
  }

  // Puts the inputs of an assembly into its output, except slices, which AssembleSlices has put.
  absl::Status LowerAssembly(OpId id) {
    const std::vector<ValueId>& inputs = graph_.op(id).inputs;
    RETURN_IF_ERROR(values_.InputsOf(id).status());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool put_before = !assembly_of_.empty() && assembly_of_[inputs[i]] == id;
      if (!put_before) RETURN_IF_ERROR(PutInput(id, i));
    }
    return absl::OkStatus();
  }

  // Puts input i of an assembly into the assembled tensor.
  absl::Status PutInput(OpId assembly, size_t i) {
    const Op& op = graph_.op(assembly);
    const LocalOp local = values_.Localized(assembly);
    ASSIGN_OR_RETURN(const ProgramValueId input,
                     values_.BringToLayout(op.inputs[i], values_.layouts().ReadIn(assembly)[i]));
    ProgramValueId assembled = values_.AsMade(op.outputs[0]);
    if (assembled == kNone) assembled = values_.AddOutput(op.outputs[0]);
    const ViewPlacement placement = op.kind->Part(local.types(), static_cast<int>(i));
    const std::string& path = graph_.value(op.outputs[0]).path;
    return builder_.PutInto(assembled, input, placement, absl::StrCat(path, ".part", i));
  }

  // Returns the value in row-major order and in memory that the step does not overwrite: the value
  // itself, or a copy if it is in a state that the step updates.
  absl::StatusOr<ProgramValueId> EnsureLasting(ProgramValueId id) {
    if (overwritten_.contains(builder_.Root(id))) return builder_.EmitCopyOf(id);
    ASSIGN_OR_RETURN(id, builder_.EnsurePadded(id));
    return builder_.EnsureRowMajor(id);
  }

  // Sets the states and the outputs of the Program. Must be called after all ops are lowered.
  absl::Status AddResults() {
    for (size_t i = 0; i < graph_.states().size(); ++i) {
      const State& state = graph_.states()[i];
      ProgramState lowered{state.path, state.origin, state.role, kNone, kNone};
      if (state.input != kNone) lowered.input = values_.AsMade(state.input);
      lowered.updated = lowered.input;
      if (state.updated != state.input) {
        ASSIGN_OR_RETURN(lowered.updated,
                         values_.BringToLayout(state.updated, values_.layouts().StoredIn(i)));
        ASSIGN_OR_RETURN(lowered.updated, EnsureLasting(lowered.updated));
      }
      builder_.program().states.push_back(std::move(lowered));
    }
    for (const GraphOutput& output : graph_.outputs()) {
      ASSIGN_OR_RETURN(ProgramValueId value,
                       values_.BringToLayout(output.value, ValueLayouts::kBroadcast));
      ASSIGN_OR_RETURN(value, EnsureLasting(value));
      builder_.program().outputs.push_back({output.name, value});
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  const bool on_mesh_;
  const Table<OpId, bool> needed_;
  const Table<ValueId, OpId> assembly_of_;
  ProgramBuilder builder_;
  LoweredValues values_;
  absl::flat_hash_set<ProgramValueId> overwritten_;  // input values of states that are updated
};

}  // namespace

absl::StatusOr<Program> Lower(const Graph& graph, const MeshDecisions& mesh,
                              KernelChooser& chooser) {
  if (!graph.status().ok()) return graph.status();
  return Lowering(graph, mesh, chooser).Run();
}

}  // namespace tessera
