#include "strategies/osdp/modes.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace tessera::strategy::osdp {
namespace {

// Adds groups to a Plan.
struct Groups {
  PlanBuilder& plan;
  std::vector<std::string> axes = {kAxis};

  void Add(const std::vector<std::string>& paths, GroupChoice::Gather gather, bool in_node) {
    // A node holds what is gathered over the nodes.
    GroupChoice& group = in_node ? plan.Group(paths, {kNodeAxis, kAxis}) : plan.Group(paths, axes);
    if (in_node) group.set_again_over(kNodeAxis);
    group.set_gather(gather);
    group.set_reduce(GroupChoice::EACH_MICRO_BATCH);
  }

  void AddPiece(const Piece& piece, bool sliced) {
    if (!sliced || piece.slice_dimension < 0) {
      return Add(piece.parameters, GroupChoice::EACH_PHASE, /*in_node=*/false);
    }
    plan.Slice(piece.parameters[0], piece.slice_dimension, piece.Slices(kSlices));
    for (const std::vector<std::string>& paths : piece.SlicedGroups(kSlices)) {
      Add(paths, GroupChoice::EACH_PHASE, /*in_node=*/false);
    }
  }
};

}  // namespace

std::string NameOf(const Mode& mode) {
  constexpr const char* kNames[] = {"replicated",
                                    "sharded",
                                    "sharded, gathered once",
                                    "sharded by operator",
                                    "sharded by slice",
                                    "optimizer state sharded",
                                    "sharded, gathered again in a node"};
  return absl::StrCat(kNames[static_cast<int>(mode.storage)], mode.recompute ? ", recomputed" : "");
}

bool CanBe(const Unit& unit, Storage storage) {
  // The others are used by the first and the last operators, and stay.
  if (storage == Storage::kNode) return unit.block >= 0;
  if (storage == Storage::kPieces) return unit.pieces.size() > 1;
  if (storage != Storage::kSlices) return true;
  return absl::c_any_of(unit.pieces, [](const Piece& piece) { return piece.slice_dimension >= 0; });
}

Plan PlanOf(const Run& run, const std::vector<Mode>& modes, PlanPart::Logits logits,
            const Settings& settings) {
  PlanBuilder plan;
  Groups groups = {plan};
  plan.Axis(kAxis);
  if (absl::c_any_of(modes, [](const Mode& mode) { return mode.storage == Storage::kNode; })) {
    plan.Axis(kNodeAxis, run.node_ranks);
    groups.axes.emplace_back(kNodeAxis);
  }
  plan.SplitBatch(run.model);
  bool gathers = false, buckets = false;
  std::vector<std::string> recomputed;
  for (size_t i = 0; i < run.units.size(); ++i) {
    const Unit& unit = run.units[i];
    const Storage storage = modes[i].storage;
    (storage == Storage::kReplicated ? buckets : gathers) = true;
    if (IsByPiece(storage)) {
      for (const Piece& piece : unit.pieces) groups.AddPiece(piece, storage == Storage::kSlices);
    } else if (storage != Storage::kReplicated) {
      groups.Add(unit.parameters,
                 storage == Storage::kOnce      ? GroupChoice::ONCE
                 : storage == Storage::kUpdated ? GroupChoice::AFTER_UPDATE
                                                : GroupChoice::EACH_PHASE,
                 storage == Storage::kNode);
    }
    if (modes[i].recompute && unit.block >= 0 && !absl::c_linear_search(recomputed, unit.name)) {
      recomputed.push_back(unit.name);
    }
  }
  if (buckets) plan.stage().add_pass()->mutable_bucket_gradients();
  if (gathers) {
    if (settings.prefetches) plan.stage().add_pass()->mutable_prefetch_gathers()->set_distance(1);
    plan.stage().add_pass()->mutable_limit_gathers()->set_in_flight(settings.prefetches ? 2 : 1);
  }
  if (settings.batch > 0) plan.Batch(settings.batch);
  if (settings.sets_micro_batches) plan.MicroBatches(run.model, settings.micro_batches);
  plan.Recompute(run.model.graph, recomputed);
  if (logits != PlanPart::LOGITS_UNSET) plan.Logits(run.model.graph, logits);
  return plan.Build();
}

std::vector<int64_t> Gathers(const Unit& unit, Storage storage) {
  if (!IsByPiece(storage)) return ArraysOf(unit);
  return ArraysOfPieces(unit, storage == Storage::kSlices ? kSlices : 1);
}

}  // namespace tessera::strategy::osdp
