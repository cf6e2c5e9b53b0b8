#include "core/plan/layouts/axis_completion.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/ids/table.h"
#include "core/plan/graph/parameter_cast.h"
#include "core/plan/layouts/expected_layouts.h"
#include "core/plan/layouts/flat_use.h"
#include "core/plan/layouts/planned_use_errors.h"
#include "core/plan/layouts/read_layouts.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Chooses the use of every op along one axis, by the first of the rules of graph_layouts.h that
// applies, in the order of the Graph. Ops that read only flexible values (stored states, and what
// is computed from them) are deferred: they are chosen at the end, by their readers.
class AxisCompletion {
 public:
  AxisCompletion(const Graph& graph, const Table<OpId, LocalTypes>& types,
                 const Table<OpId, std::vector<AxisUse>>& preceding, const AxisDecisions& decisions,
                 const Mesh& mesh, int axis)
      : graph_(graph),
        types_(types),
        preceding_(preceding),
        decisions_(decisions),
        mesh_(mesh),
        axis_(mesh.axis(axis)),
        split_{axis_.size, /*even=*/false, /*keeps_units=*/false},
        flexible_(graph.values().size(), false),
        deferred_(graph.ops().size(), false) {
    result_.values.resize(graph.values().size());
    for (const GraphInput& input : graph.inputs()) {
      result_.values[input.value] = decisions.stored[input.value]->layout;
    }
    for (const State& state : graph.states()) {
      if (state.input == kNone) continue;
      flexible_[state.input] = true;
      const std::optional<AxisStore>& stored = decisions.stored[state.input];
      if (stored.has_value() && !stored->flat) result_.values[state.input] = stored->layout;
    }
  }

  absl::StatusOr<AxisResult> Complete() && {
    result_.ops.reserve(graph_.ops().size());
    for (const OpId id : graph_.ops().ids()) {
      const Op& op = graph_.op(id);
      if (IsParameterCast(graph_, op)) {
        flexible_[op.outputs[0]] = true;
        result_.values[op.outputs[0]] = result_.values[op.inputs[0]];
      }
      ASSIGN_OR_RETURN(AxisUse use, Choose(id));
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        if (!flexible_[op.outputs[i]]) result_.values[op.outputs[i]] = use.signature.outputs[i];
      }
      result_.ops.push_back(std::move(use));
    }
    ChooseDeferred();
    return std::move(result_);
  }

 private:
  // Returns an op's types along this axis.
  OpTypes TypesOf(OpId id) const {
    return {types_[id].inputs, types_[id].outputs, graph_.op(id).attributes};
  }
  // Return an op's signatures along this axis: those that need not be stated, those that must be,
  // and all.
  std::vector<Signature> SignaturesOf(OpId id) const {
    return Within(id, graph_.op(id).kind->Signatures(TypesOf(id)));
  }
  std::vector<Signature> StatedSignaturesOf(OpId id) const {
    return Within(id, graph_.op(id).kind->StatedSignatures(TypesOf(id)));
  }
  std::vector<Signature> AllSignaturesOf(OpId id) const {
    return Within(id, graph_.op(id).kind->AllSignatures(TypesOf(id)));
  }
  // Returns those of `signatures` by which an op can be computed on what the preceding axes leave.
  std::vector<Signature> Within(OpId id, std::vector<Signature> signatures) const {
    for (size_t axis = 0; axis < preceding_[id].size(); ++axis) {
      const AxisUse& use = preceding_[id][axis];
      if (use.kind != AxisUse::Kind::kSigned || mesh_.axis(axis).size == 1) continue;
      signatures.erase(
          std::remove_if(signatures.begin(), signatures.end(),
                         [&](const Signature& s) { return !FitsWithin(s, use.signature); }),
          signatures.end());
    }
    return signatures;
  }
  FittedUse FittedUseOf(OpId id, absl::Span<const Signature> signatures) const {
    return {signatures, types_[id].inputs, types_[id].outputs};
  }

  // Chooses the use of an op, of which all producers of inputs have been chosen or deferred.
  absl::StatusOr<AxisUse> Choose(OpId id) {
    const Op& op = graph_.op(id);
    if (decisions_.ops[id] != nullptr) return AsPlanned(id, *decisions_.ops[id]);
    std::vector<Signature> signatures = SignaturesOf(id);
    if (IsParameterCast(graph_, op)) return AsStored(id, signatures);
    ASSIGN_OR_RETURN(std::optional<AxisUse> update, AsUpdate(id, signatures));
    if (update.has_value()) return *std::move(update);
    if (absl::c_all_of(op.inputs, [&](ValueId input) { return flexible_[input]; })) {
      return Defer(id, signatures);
    }
    const OpId forward = op.gradient_of;
    const bool has_chosen_forward =
        forward != kNone && !(deferred_[forward] && IsFlexible(forward));
    if (has_chosen_forward && result_.ops[forward].kind == AxisUse::Kind::kSigned) {
      if (std::optional<AxisUse> use = DualUse(id, forward, signatures)) return *std::move(use);
    }
    return ByArrival(id, signatures, /*complete_partial=*/has_chosen_forward);
  }

  // Returns whether an op's outputs can be brought to any layout.
  bool IsFlexible(OpId id) const { return flexible_[graph_.op(id).outputs[0]]; }

  // --- Rule 1 ----------------------------------------------------------------------------------

  // Returns the use that the Plan names, checked against what the op can do. If the Plan left the
  // units open, they become those in which the inputs arrive.
  absl::StatusOr<AxisUse> AsPlanned(OpId id, const AxisUse& planned) {
    const Op& op = graph_.op(id);
    if (planned.kind == AxisUse::Kind::kBroadcast) return AxisUse::Broadcast(op);
    if (planned.kind == AxisUse::Kind::kFlat) {
      // Without the Graph that updates it, an optimizer state belongs to no group; its initial
      // value is the same on all ranks then.
      const bool is_initial_value = graph_.op(id).inputs.empty();
      std::optional<AxisUse> flat;
      if (is_initial_value || MayBeFlat(graph_, op, decisions_.stored, decisions_.updated)) {
        flat = UseOnFlatRange(graph_.op(id), types_[id], decisions_.updated, SignaturesOf(id));
      }
      if (!flat.has_value()) return NoSignature(id, planned);
      if (decisions_.gathers[id]) return NotOnRange(graph_.op(id), axis_.name);
      return *std::move(flat);
    }
    const std::vector<Signature> signatures = AllSignaturesOf(id);
    const auto named = absl::c_find_if(signatures, [&](const Signature& signature) {
      return IsMultipleOf(planned.signature, signature);
    });
    if (named == signatures.end()) return NoSignature(id, planned);
    int64_t factor = 1;
    for (size_t i = 0; planned.open_units && i < op.inputs.size() && factor == 1; ++i) {
      const AxisLayout& named = planned.signature.inputs[i];
      const AxisLayout& arriving = result_.values[op.inputs[i]];
      if (!named.split() || !arriving.split() || named.dim != arriving.dim) continue;
      if (arriving.unit % named.unit == 0) factor = arriving.unit / named.unit;
    }
    Signature signature = WithUnits(planned.signature, factor);
    signature.in_parts = named->in_parts;
    return AxisUse::By(std::move(signature));
  }

  absl::Status NoSignature(OpId id, const AxisUse& planned) const {
    const std::vector<Signature> possible = AllSignaturesOf(id);
    return NoSuchSignature(graph_, graph_.op(id), planned, possible, axis_.name);
  }

  // --- Rule 2 ----------------------------------------------------------------------------------

  // Returns how a value is stored if it is an operand of an update; nullopt for other values.
  const std::optional<AxisStore>& UpdateStoreOf(ValueId value) const {
    return decisions_.updated[value];
  }

  // Returns the use of an op of the update, which reads and writes values as they are stored: flat,
  // on the rank's range of a group, or by a signature. Nullopt for other ops, and for those that
  // have no such signature.
  absl::StatusOr<std::optional<AxisUse>> AsUpdate(OpId id,
                                                  const std::vector<Signature>& signatures) {
    const Op& op = graph_.op(id);
    ExpectedLayouts expected(op);
    const bool on_range = !decisions_.gathers[id];
    bool writes_stored = false, flat = false;
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const std::optional<AxisStore>& store = UpdateStoreOf(op.outputs[i]);
      if (!store.has_value() || graph_.value(op.outputs[i]).gradient_of != kNone) continue;
      writes_stored = true;
      flat = flat || (on_range && store->flat);
      expected.outputs[i] = Expected::Exactly(store->layout);
    }
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const std::optional<AxisStore>& store = UpdateStoreOf(op.inputs[i]);
      if (!store.has_value() || (!writes_stored && op.phase != Phase::kUpdate)) continue;
      if (writes_stored) expected.inputs[i] = Expected::Exactly(store->layout);
      flat = flat || (on_range && store->flat);
    }
    if (flat) {
      std::optional<AxisUse> use =
          UseOnFlatRange(graph_.op(id), types_[id], decisions_.updated, signatures);
      if (use.has_value()) return use;
      if (!writes_stored) return std::optional<AxisUse>();  // it reads the gathered value
      return absl::InvalidArgumentError(absl::StrCat(
          "the update '", op.path, "' is not elementwise (", op.kind->name(),
          "), so it cannot be computed on a part of a flat group; store its parameter in none"));
    }
    if (!writes_stored) return std::optional<AxisUse>();
    std::optional<Signature> best =
        BestExpected(FittedUseOf(id, signatures), expected, ArrivingAt(id), split_);
    if (!best.has_value()) return std::optional<AxisUse>();
    return std::optional<AxisUse>(AxisUse::By(*std::move(best)));
  }

  // Returns the use of a cast of a parameter on the part that a rank stores.
  AxisUse AsStored(OpId id, const std::vector<Signature>& signatures) const {
    const Op& op = graph_.op(id);
    const std::optional<AxisStore>& store = decisions_.stored[op.inputs[0]];
    if (store.has_value() && store->flat && !decisions_.gathers[id]) return AxisUse::Flat(op);
    const std::vector<Arriving> stored = {result_.values[op.inputs[0]]};
    const std::optional<SignatureFit> fit =
        FitOrGather(FittedUseOf(id, signatures), stored, op.inputs, split_);
    return fit.has_value() ? AxisUse::By(fit->signature) : AxisUse::Broadcast(op);
  }

  // --- Rule 3 ----------------------------------------------------------------------------------

  // Returns the use of a gradient op that is the dual of that of its forward op; nullopt if it has
  // none.
  std::optional<AxisUse> DualUse(OpId id, OpId forward, const std::vector<Signature>& signatures) {
    if (result_.ops[forward].signature.in_parts) {
      std::optional<Signature> stated = DualSignature(id, forward, StatedSignaturesOf(id));
      if (stated.has_value() && stated->in_parts) return AxisUse::By(*std::move(stated));
    }
    std::optional<Signature> whole = DualSignature(id, forward, signatures);
    if (!whole.has_value()) return std::nullopt;
    return AxisUse::By(*std::move(whole));
  }

  // Returns the signature of a gradient op that is the dual of that of its forward op; nullopt if
  // it has none. If no signature has the dual outputs, those of the inputs decide.
  std::optional<Signature> DualSignature(OpId id, OpId forward,
                                         const std::vector<Signature>& signatures) {
    const Op& op = graph_.op(id);
    ExpectedLayouts expected =
        ExpectDual(graph_, op, graph_.op(forward), result_.ops[forward].signature);
    std::vector<Signature> without;
    const absl::Span<const Signature> possible = WithoutPartialFlexible(op, signatures, without);
    const std::vector<Arriving> arriving = ArrivingAt(id);
    std::optional<Signature> best =
        BestExpected(FittedUseOf(id, possible), expected, arriving, split_);
    if (best.has_value()) return best;
    expected.outputs.assign(op.outputs.size(), Expected::Anything());
    return BestExpected(FittedUseOf(id, possible), expected, arriving, split_);
  }

  // --- Rule 4 ----------------------------------------------------------------------------------

  // Returns the layouts in which the op's inputs arrive; nullopt for an input that can be brought
  // to any layout.
  std::vector<Arriving> ArrivingAt(OpId id) const {
    const Op& op = graph_.op(id);
    std::vector<Arriving> arriving;
    for (ValueId input : op.inputs) {
      const std::optional<AxisStore>& store = UpdateStoreOf(input);
      if (flexible_[input]) {
        arriving.push_back(std::nullopt);
      } else if (op.phase == Phase::kUpdate && store.has_value()) {
        arriving.push_back(store->layout);
      } else {
        arriving.push_back(result_.values[input]);
      }
    }
    return arriving;
  }

  // Returns the signatures in which no flexible input is partial, except a constant that its op can
  // compute as partial: all of them, or those that this sets `without` to.
  absl::Span<const Signature> WithoutPartialFlexible(const Op& op,
                                                     const std::vector<Signature>& signatures,
                                                     std::vector<Signature>& without) const {
    const auto impossible = [&](const Signature& signature) {
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        if (!signature.inputs[i].partial() || !flexible_[op.inputs[i]]) continue;
        if (!CanMakePartial(op.inputs[i], signature.inputs[i])) return true;
      }
      return false;
    };
    if (absl::c_none_of(signatures, impossible)) return signatures;
    std::remove_copy_if(signatures.begin(), signatures.end(), std::back_inserter(without),
                        impossible);
    return without;
  }

  // Returns whether `value` is a constant whose op can compute it as `partial`.
  bool CanMakePartial(ValueId value, const AxisLayout& partial) const {
    const OpId producer = graph_.value(value).producer;
    return producer != kNone && graph_.op(producer).inputs.empty() &&
           absl::c_any_of(SignaturesOf(producer), [&](const Signature& signature) {
             return signature.outputs[0] == partial;
           });
  }

  // Returns the use that fits the layouts in which the inputs arrive, or else B. With
  // `complete_partial`, partial inputs are reduced first. An op that is B because nothing splits
  // its inputs is deferred.
  AxisUse ByArrival(OpId id, const std::vector<Signature>& signatures, bool complete_partial) {
    const Op& op = graph_.op(id);
    std::vector<Arriving> arriving = ArrivingAt(id);
    const auto partial = [](const Arriving& layout) {
      return layout.has_value() && layout->partial();
    };
    const bool any_partial = absl::c_any_of(arriving, partial);
    const bool nothing_splits = absl::c_all_of(arriving, [](const Arriving& layout) {
      return !layout.has_value() || layout->broadcast();
    });
    for (Arriving& layout : arriving) {
      if (complete_partial && partial(layout)) layout = AxisLayout::Broadcast();
      // Beside partial inputs of an update, full ones may be brought to any layout.
      const bool follows_partial = op.phase == Phase::kUpdate && any_partial;
      if (follows_partial && layout.has_value() && layout->broadcast()) layout = std::nullopt;
    }
    std::vector<Signature> without;
    const absl::Span<const Signature> possible = WithoutPartialFlexible(op, signatures, without);
    std::optional<SignatureFit> fit =
        FitOrGather(FittedUseOf(id, possible), arriving, op.inputs, split_);
    if (fit.has_value()) return AxisUse::By(std::move(fit->signature));
    deferred_[id] = nothing_splits;
    return AxisUse::Broadcast(op);
  }

  // --- Rule 5 ----------------------------------------------------------------------------------

  // Defers an op that reads only flexible values: its outputs are flexible, too. Until it is
  // chosen, it has the layouts that result if the stored values are not redistributed.
  AxisUse Defer(OpId id, const std::vector<Signature>& signatures) {
    const Op& op = graph_.op(id);
    deferred_[id] = true;
    std::vector<Arriving> stored;
    for (ValueId input : op.inputs) stored.push_back(result_.values[input]);
    const std::optional<SignatureFit> fit =
        FitOrGather(FittedUseOf(id, signatures), stored, op.inputs, split_);
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      flexible_[op.outputs[i]] = true;
      if (fit.has_value()) result_.values[op.outputs[i]] = fit->signature.outputs[i];
    }
    return AxisUse::Broadcast(op);
  }

  // Chooses the deferred ops. Visits readers before the ops whose outputs they read.
  void ChooseDeferred() {
    ReadLayouts reads(graph_.values().size());
    for (const State& state : graph_.states()) {
      if (state.updated == state.input) continue;
      const std::optional<AxisStore>& store = UpdateStoreOf(state.updated);
      reads.Add(state.updated, store.has_value() ? store->layout : result_.values[state.updated]);
    }
    for (const GraphOutput& output : graph_.outputs()) reads.AddFull(output.value);
    for (OpId id = graph_.ops().end_id() - 1; id != kNone; --id) {
      const Op& op = graph_.op(id);
      if (deferred_[id]) {
        result_.ops[id] = AsRead(id, reads);
        for (size_t i = 0; i < op.outputs.size(); ++i) {
          result_.values[op.outputs[i]] = result_.ops[id].signature.outputs[i];
        }
      }
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        reads.Add(op.inputs[i], result_.ops[id].signature.inputs[i]);
      }
    }
  }

  // Returns the use that computes an op's outputs in the layouts in which all readers read them; B
  // if the readers differ or no signature does.
  AxisUse AsRead(OpId id, const ReadLayouts& reads) const {
    const Op& op = graph_.op(id);
    const std::optional<std::vector<Arriving>> read = reads.Of(op.outputs);
    if (!read.has_value()) return AxisUse::Broadcast(op);
    const std::vector<Signature> signatures = SignaturesOf(id);
    const Arriving& first = read->front();
    if (op.inputs.empty() && first.has_value() && first->partial()) {
      for (const Signature& signature : signatures) {
        if (signature.outputs[0] == *first) return AxisUse::By(signature);
      }
    }
    std::optional<Signature> made =
        FindSignatureProducing(FittedUseOf(id, signatures), *read, split_);
    return made.has_value() ? AxisUse::By(*std::move(made)) : AxisUse::Broadcast(op);
  }

  const Graph& graph_;
  const Table<OpId, LocalTypes>& types_;
  const Table<OpId, std::vector<AxisUse>>& preceding_;
  const AxisDecisions& decisions_;
  const Mesh& mesh_;
  const Mesh::Axis& axis_;
  const SplitAxis split_;
  // Until its op is chosen, result_.values has for a flexible value the layout that results if the
  // stored values are not redistributed.
  Table<ValueId, bool> flexible_;
  Table<OpId, bool> deferred_;
  AxisResult result_;
};

}  // namespace

absl::StatusOr<AxisResult> CompleteAxis(const Graph& graph, const Table<OpId, LocalTypes>& types,
                                        const Table<OpId, std::vector<AxisUse>>& preceding,
                                        const AxisDecisions& decisions, const Mesh& mesh,
                                        int axis) {
  return AxisCompletion(graph, types, preceding, decisions, mesh, axis).Complete();
}

}  // namespace tessera
