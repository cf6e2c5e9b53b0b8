#include "core/compile/graph_key.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "core/compile/redistribution_choices.h"
#include "core/plan/graph/parameter_cast.h"
#include "core/plan/layouts/axis_use.h"

namespace tessera {
namespace {

// Appends values to a key, so that different sequences of values give different bytes.
class KeyWriter {
 public:
  void Add(int64_t value) {
    char bytes[sizeof(value)];
    std::memcpy(bytes, &value, sizeof(value));
    key_.append(bytes, sizeof(value));
  }
  void Add(absl::string_view text) {
    Add(static_cast<int64_t>(text.size()));
    key_.append(text.data(), text.size());
  }
  void Add(const AxisLayout& layout) {
    Add(static_cast<int64_t>(layout.kind) << 40 | static_cast<int64_t>(layout.reduction) << 32 |
        layout.dim);
    Add(layout.unit);
  }
  void Add(const AxisUse& use) {
    Add(static_cast<int64_t>(use.kind) << 1 | static_cast<int64_t>(use.open_units));
    for (const auto* operands : {&use.signature.inputs, &use.signature.outputs}) {
      Add(static_cast<int64_t>(operands->size()));
      for (const AxisLayout& layout : *operands) Add(layout);
    }
  }
  // `layout` may be null.
  void Add(const StoredLayout* layout, const Mesh& mesh) {
    if (layout == nullptr) return Add(-1);
    Add(static_cast<int64_t>(layout->flat_axes.size()));
    for (const int axis : layout->flat_axes) Add(axis);
    const bool is_broadcast = absl::c_all_of(
        layout->layout.axes(), [](const AxisLayout& along) { return along.broadcast(); });
    Add(is_broadcast ? "B" : layout->layout.ToString(mesh));
  }

  std::string Take() && { return std::move(key_); }

 private:
  std::string key_;
};

const StoredLayout* Find(const absl::flat_hash_map<std::string, StoredLayout>& layouts,
                         const std::string& path) {
  const auto found = layouts.find(path);
  return found == layouts.end() ? nullptr : &found->second;
}

// Returns whether the Graph may gather a group in more than one phase: at its end, the lowering of
// outputs and of updated states is in another phase than the forward pass.
bool HasPhases(const Graph& graph, int64_t micro_batches) {
  if (micro_batches > 1) return true;
  for (const Op& op : graph.ops()) {
    if (op.phase != Phase::kForward) return true;
  }
  const auto may_be_parameter = [&graph](ValueId id) {
    const OpId producer = graph.value(id).producer;
    if (producer == kNone) return true;
    const Op& op = graph.op(producer);
    return op.kind->is_view() || op.kind->is_assembly() || IsParameterCast(graph, op);
  };
  for (const GraphOutput& output : graph.outputs()) {
    if (may_be_parameter(output.value)) return true;
  }
  return absl::c_any_of(graph.states(), [&](const State& state) {
    return state.updated != state.input && may_be_parameter(state.updated);
  });
}

const Stage& StageOf(const Plan& plan) {
  return plan.stages_size() > 0 ? plan.stages(0) : Stage::default_instance();
}

void AddPart(const std::string& graph, const Stage& stage, KeyWriter& key) {
  for (const PlanPart& part : stage.parts()) {
    if (part.graph() != graph) continue;
    key.Add(part.micro_batches());
    key.Add(part.logits());
    key.Add(part.recompute_size());
    for (const std::string& path : part.recompute()) key.Add(path);
    key.Add(part.passes_size());
    for (const std::string& pass : part.passes()) key.Add(pass);
  }
}

int64_t MicroBatchesOf(const std::string& graph, const Stage& stage) {
  for (const PlanPart& part : stage.parts()) {
    if (part.graph() == graph) return part.micro_batches();
  }
  return 1;
}

void AddGroups(const DecidedRun& run, bool has_phases, KeyWriter& key) {
  key.Add(static_cast<int64_t>(run.decisions.groups.size()));
  for (const StoreGroup& group : run.decisions.groups) {
    key.Add(static_cast<int64_t>(group.axes.size()));
    for (const int axis : group.axes) key.Add(axis);
    // Without phases, a group is gathered once in any case.
    key.Add(has_phases ? group.gathers_kept : 0);
    key.Add(int64_t{group.gathers_after_update} << 1 | int64_t{group.reduce_each});
    key.Add(group.block);
    key.Add(static_cast<int64_t>(group.members.size()));
    for (const std::string& member : group.members) {
      key.Add(member);
      key.Add(Find(run.decisions.stored, member), run.mesh);
    }
  }
}

}  // namespace

std::string LayoutKey(const DecidedRun& run, size_t i, const Plan& plan) {
  const Graph& graph = run.graphs[i];
  const Stage& stage = StageOf(plan);
  KeyWriter key;
  key.Add(run.mesh.num_axes());
  for (const Mesh::Axis& axis : run.mesh.axes()) {
    key.Add(axis.name);
    key.Add(axis.size);
  }
  key.Add(stage.precision().SerializeAsString());
  key.Add(stage.slice_size());
  for (const SliceChoice& slice : stage.slice()) key.Add(slice.SerializeAsString());
  for (const OpId id : graph.ops().ids()) {
    if (run.decisions.operators[i].empty()) break;
    const auto planned = run.decisions.operators[i].find(id);
    if (planned == run.decisions.operators[i].end()) continue;
    key.Add(id.index());
    for (const std::optional<AxisUse>& use : planned->second) {
      key.Add(int64_t{use.has_value()});
      if (use.has_value()) key.Add(*use);
    }
  }
  key.Add(-1);
  for (const GraphInput& input : graph.inputs()) {
    key.Add(Find(run.decisions.stored, input.origin), run.mesh);
  }
  for (const State& state : graph.states()) {
    key.Add(Find(run.decisions.stored, state.path), run.mesh);
    key.Add(Find(run.decisions.updated, state.path), run.mesh);
  }
  return std::move(key).Take();
}

std::string ProgramKey(const DecidedRun& run, size_t i, const Plan& plan) {
  const Graph& graph = run.graphs[i];
  const Stage& stage = StageOf(plan);
  KeyWriter key;
  key.Add(stage.pass_size());
  for (const PassChoice& pass : stage.pass()) key.Add(pass.SerializeAsString());
  key.Add(RedistributionKey(stage));
  AddPart(graph.name(), stage, key);
  AddGroups(run, HasPhases(graph, MicroBatchesOf(graph.name(), stage)), key);
  return std::move(key).Take();
}

}  // namespace tessera
