#include "core/program/lower.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/program/lower_redistribution.h"
#include "core/program/program_builder.h"
#include "core/program/value_layouts.h"
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

// The part of an op that a rank computes.
struct LocalOp {
  std::vector<TensorType> inputs, outputs;  // with padding
  Attributes attributes;

  OpTypes types() const { return {inputs, outputs, attributes}; }
};

class Lowering {
 public:
  // `finder` may be null on one rank.
  Lowering(const Graph& graph, ValueLayouts layouts, Mesh mesh, RedistributionFinder* finder,
           KernelChooser& chooser)
      : graph_(graph),
        layouts_(std::move(layouts)),
        chooser_(chooser),
        builder_(graph.name(), std::move(mesh), &chooser),
        redistributor_(&builder_, finder),
        needed_(NeededOps(graph)) {
    value_of_.assign(graph.values().size(), kNone);
    for (const GraphOutput& output : graph.outputs()) results_.insert(output.value);
    for (const State& state : graph.states()) results_.insert(state.updated);
    if (finder != nullptr) ListReads();
  }

  absl::StatusOr<Program> Run() {
    for (const GraphInput& input : graph_.inputs()) {
      const int32_t value = AddTensor(input.value);
      SetValue(input.value, value);
      builder_.program().inputs.push_back({graph_.value(input.value).path, value});
    }
    for (const State& state : graph_.states()) {
      if (state.input == kNone) continue;
      SetValue(state.input, AddTensor(state.input));
      if (state.updated != state.input) overwritten_.insert(value_of_[state.input]);
    }
    for (size_t id = 0; id < graph_.ops().size(); ++id) {
      if (needed_[id]) RETURN_IF_ERROR(LowerOp(static_cast<OpId>(id)));
    }
    builder_.set_phase(Phase::kUpdate);
    RETURN_IF_ERROR(AddResults());
    return std::move(builder_.program());
  }

 private:
  // A value in another layout than the one in which it is made.
  struct Arrangement {
    int32_t layout;
    Phase phase;
    int32_t value;
  };

  void ListReads() {
    reads_.resize(graph_.values().size());
    const auto add = [this](ValueId value, int32_t layout) {
      std::vector<int32_t>& reads = reads_[value];
      if (layout == layouts_.Made(value)) return;
      if (std::find(reads.begin(), reads.end(), layout) == reads.end()) reads.push_back(layout);
    };
    for (size_t id = 0; id < graph_.ops().size(); ++id) {
      const std::vector<ValueId>& inputs = graph_.ops()[id].inputs;
      const absl::Span<const int32_t> read = layouts_.Read(static_cast<OpId>(id));
      for (size_t i = 0; needed_[id] && i < inputs.size(); ++i) add(inputs[i], read[i]);
    }
    for (size_t i = 0; i < graph_.states().size(); ++i) {
      add(graph_.states()[i].updated, layouts_.Stored(i));
    }
    for (const GraphOutput& output : graph_.outputs()) add(output.value, ValueLayouts::kBroadcast);
  }

  TensorType Realized(const TensorType& type) const {
    return {chooser_.catalogue().Realize(type.dtype), type.shape};
  }

  // The part of a global tensor that ranks hold.
  int32_t PartOf(ValueId id) {
    return builder_.EnterPart(graph_.value(id).type.shape, layouts_.layout(layouts_.Made(id)));
  }

  void SetValue(ValueId id, int32_t value) {
    value_of_[id] = value;
    if (results_.contains(id)) builder_.Keep(value);
  }

  // A value in a buffer of its own.
  int32_t AddTensor(ValueId id) {
    const Value& value = graph_.value(id);
    const int32_t tensor =
        builder_.AddTensor(value.path, Realized(layouts_.LocalType(value.type, layouts_.Made(id))),
                           value.role, PartOf(id));
    const ValueId of = value.complete_gradient_of;
    if (of != kNone && IsParameter(of)) builder_.SetGradientOf(tensor, value_of_[of]);
    return tensor;
  }

  // --- Layouts ---------------------------------------------------------------------------------

  bool IsParameter(ValueId id) const {
    return graph_.value(id).role == Role::kParameter && graph_.value(id).producer == kNone;
  }

  // The stream on which a value is redistributed.
  absl::string_view StreamOf(ValueId id) const {
    if (IsParameter(id)) return "parameters";
    const ValueId of = graph_.value(id).gradient_of;
    return of != kNone && IsParameter(of) ? "gradients" : "activations";
  }

  // Returns a value in the layout of this number. Of the layouts in which it is already there, it
  // is brought from the one from which that is cheapest.
  absl::StatusOr<int32_t> Arranged(ValueId id, int32_t layout) {
    if (layout == layouts_.Made(id)) return value_of_[id];
    const Shape& global = graph_.value(id).type.shape;
    const MeshLayout& to = layouts_.layout(layout);
    std::vector<Arrangement>& known = arranged_[id];
    int32_t from = layouts_.Made(id), value = value_of_[id];
    ASSIGN_OR_RETURN(double price,
                     redistributor_.Seconds(value, global, layouts_.layout(from), to));
    for (const Arrangement& other : known) {
      if (IsParameter(id) && other.phase != builder_.phase()) continue;
      if (other.layout == layout) return other.value;
      // The order of a sum over ranks depends on nothing but what is summed.
      const absl::StatusOr<double> seconds =
          redistributor_.Seconds(other.value, global, layouts_.layout(other.layout), to);
      if (!seconds.ok() || *seconds >= price) continue;
      price = *seconds;
      from = other.layout;
      value = other.value;
    }
    ASSIGN_OR_RETURN(
        value, redistributor_.Redistribute(value, global, layouts_.layout(from), to, StreamOf(id)));
    known.push_back({layout, builder_.phase(), value});
    if (results_.contains(id)) builder_.Keep(value);
    return value;
  }

  // Whether redistribution completes a partial value.
  bool Completes(int32_t from, int32_t to) const {
    const MeshLayout& before = layouts_.layout(from);
    const MeshLayout& after = layouts_.layout(to);
    for (int axis = 0; axis < before.num_axes(); ++axis) {
      if (before.axis(axis).partial() && !after.axis(axis).partial()) return true;
    }
    return false;
  }

  absl::Status CompletePartial(ValueId id) {
    if (reads_.empty()) return absl::OkStatus();
    for (const int32_t layout : reads_[id]) {
      if (!Completes(layouts_.Made(id), layout)) continue;
      RETURN_IF_ERROR(Arranged(id, layout).status());
    }
    return absl::OkStatus();
  }

  LocalOp Localized(OpId id) const {
    const Op& op = graph_.op(id);
    const absl::Span<const int32_t> read = layouts_.Read(id);
    LocalOp local;
    std::vector<Region> input_regions, output_regions;
    bool everywhere = true;
    const auto add = [&](ValueId value, int32_t layout, std::vector<TensorType>& types,
                         std::vector<Region>& regions) {
      const TensorType& type = graph_.value(value).type;
      types.push_back(layouts_.LocalType(type, layout));
      if (layout != ValueLayouts::kBroadcast) everywhere = false;
      regions.push_back({std::vector<int64_t>(type.shape.size(), 0),
                         std::vector<int64_t>(type.shape.begin(), type.shape.end())});
    };
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      add(op.inputs[i], read[i], local.inputs, input_regions);
    }
    for (ValueId output : op.outputs) {
      add(output, layouts_.Made(output), local.outputs, output_regions);
    }
    local.attributes = op.attributes;
    if (everywhere) return local;
    const LocalUse use = {local.inputs, local.outputs, input_regions, output_regions};
    local.attributes = op.kind->LocalAttributes(op.attributes, use);
    return local;
  }

  // --- Operators -------------------------------------------------------------------------------

  absl::Status LowerOp(OpId id) {
    const Op& op = graph_.op(id);
    builder_.set_phase(op.phase);
    std::vector<int32_t> inputs;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      ASSIGN_OR_RETURN(const int32_t input, Arranged(op.inputs[i], layouts_.Read(id)[i]));
      inputs.push_back(input);
    }
    const LocalOp local = Localized(id);
    if (op.kind->is_view()) {
      RETURN_IF_ERROR(LowerView(op, local, inputs[0]));
    } else if (op.kind->is_assembly()) {
      RETURN_IF_ERROR(LowerAssembly(op, local, inputs));
    } else {
      RETURN_IF_ERROR(LowerKernel(op, local, std::move(inputs)));
    }
    for (ValueId output : op.outputs) RETURN_IF_ERROR(CompletePartial(output));
    return absl::OkStatus();
  }

  absl::Status LowerKernel(const Op& op, const LocalOp& local, std::vector<int32_t> inputs) {
    Instruction instruction;
    instruction.path = op.path;
    instruction.recomputed = op.recomputed;
    instruction.cost = op.kind->Cost(local.types());
    instruction.inputs = std::move(inputs);
    for (ValueId output : op.outputs) {
      SetValue(output, AddTensor(output));
      instruction.outputs.push_back(value_of_[output]);
    }
    for (OpId earlier : op.after) {
      for (ValueId id : graph_.op(earlier).outputs) {
        if (value_of_[id] != kNone) instruction.after.push_back(value_of_[id]);
      }
    }
    instruction.draw = EnterDraw(op);
    KernelWork work{Text(op.kind->name()), local.attributes};
    TakeDraw(local.outputs[0].shape, work.attributes);
    return builder_.EmitKernel(std::move(work), std::move(instruction));
  }

  // Returns the number of the random draw that an op makes; kNone if it makes none.
  int32_t EnterDraw(const Op& op) {
    const Shape& shape = graph_.value(op.outputs[0]).type.shape;
    std::optional<RandomDraw> draw = DrawOf(shape, op.attributes);
    if (!draw.has_value()) return kNone;
    std::vector<DrawRule>& draws = builder_.program().draws;
    draws.push_back(
        {draw->path,
         {draw->global, draw->start, shape, layouts_.layout(layouts_.Made(op.outputs[0]))}});
    return static_cast<int32_t>(draws.size()) - 1;
  }

  absl::Status LowerView(const Op& op, const LocalOp& local, int32_t base) {
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const int output = static_cast<int>(i);
      std::optional<ViewPlacement> placement =
          op.kind->View(local.types(), output, builder_.value(base).strides);
      if (!placement.has_value()) {
        ASSIGN_OR_RETURN(base, builder_.RowMajor(base));
        placement = op.kind->View(local.types(), output, builder_.value(base).strides);
        TESSERA_CHECK(placement.has_value()) << op.path;
      }
      const Value& value = graph_.value(op.outputs[i]);
      SetValue(op.outputs[i], builder_.AddView(value.path, Realized(local.outputs[i]), base,
                                               *placement, value.role, PartOf(op.outputs[i])));
    }
    return absl::OkStatus();
  }

  absl::Status LowerAssembly(const Op& op, const LocalOp& local,
                             const std::vector<int32_t>& inputs) {
    const std::string& path = graph_.value(op.outputs[0]).path;
    const int32_t assembled = AddTensor(op.outputs[0]);
    SetValue(op.outputs[0], assembled);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ViewPlacement placement = op.kind->Part(local.types(), static_cast<int>(i));
      RETURN_IF_ERROR(
          builder_.PutInto(assembled, inputs[i], placement, absl::StrCat(path, ".part", i)));
    }
    return absl::OkStatus();
  }

  // --- Results ---------------------------------------------------------------------------------

  // A value that is there at the end of the step, in row-major order: itself, or a copy if it lies
  // in a state that the step updates.
  absl::StatusOr<int32_t> Lasting(int32_t id) {
    if (overwritten_.contains(builder_.Root(id))) return builder_.Copy(id);
    return builder_.RowMajor(id);
  }

  absl::Status AddResults() {
    for (size_t i = 0; i < graph_.states().size(); ++i) {
      const State& state = graph_.states()[i];
      ProgramState lowered{state.path, state.role, kNone, kNone};
      if (state.input != kNone) lowered.input = value_of_[state.input];
      lowered.updated = value_of_[state.updated];
      if (state.updated != state.input) {
        ASSIGN_OR_RETURN(lowered.updated, Arranged(state.updated, layouts_.Stored(i)));
        ASSIGN_OR_RETURN(lowered.updated, Lasting(lowered.updated));
      }
      builder_.program().states.push_back(std::move(lowered));
    }
    for (const GraphOutput& output : graph_.outputs()) {
      ASSIGN_OR_RETURN(int32_t value, Arranged(output.value, ValueLayouts::kBroadcast));
      ASSIGN_OR_RETURN(value, Lasting(value));
      builder_.program().outputs.push_back({output.name, value});
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  const ValueLayouts layouts_;
  KernelChooser& chooser_;
  ProgramBuilder builder_;
  Redistributor redistributor_;
  const std::vector<bool> needed_;           // by op
  std::vector<int32_t> value_of_;            // by ValueId, as it is made
  std::vector<std::vector<int32_t>> reads_;  // by ValueId: other layouts
  absl::flat_hash_map<ValueId, std::vector<Arrangement>> arranged_;
  absl::flat_hash_set<ValueId> results_;      // outputs and updated states
  absl::flat_hash_set<int32_t> overwritten_;  // inputs of states that are updated
};

}  // namespace

absl::StatusOr<Program> Lower(const Graph& graph, KernelChooser& chooser) {
  if (!graph.status().ok()) return graph.status();
  return Lowering(graph, ValueLayouts(graph), Mesh(), nullptr, chooser).Run();
}

absl::StatusOr<Program> Lower(const Graph& graph, const MeshDecisions& mesh,
                              KernelChooser& chooser) {
  if (!graph.status().ok()) return graph.status();
  ValueLayouts layouts(graph, mesh.finder.mesh(), mesh.layouts, mesh.decisions);
  return Lowering(graph, std::move(layouts), mesh.finder.mesh(), &mesh.finder, chooser).Run();
}

}  // namespace tessera
