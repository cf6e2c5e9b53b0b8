#include "strategies/osdp/modes.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace tessera::strategy::osdp {
namespace {

constexpr int64_t kStoredBytes = 4;  // of an element: parameters are stored in f32

void AddGroup(const std::vector<std::string>& paths, GroupChoice::Gather gather,
              PlanBuilder& plan) {
  GroupChoice& group = plan.Group(paths, {kAxis});
  group.set_gather(gather);
  group.set_reduce(GroupChoice::EACH_MICRO_BATCH);
}

void AddSlicedPiece(const Piece& piece, PlanBuilder& plan) {
  if (piece.slice_dimension < 0) return AddGroup(piece.parameters, GroupChoice::EACH_PHASE, plan);
  SliceChoice& slices = *plan.stage().add_slice();
  slices.set_path(piece.parameters[0]);
  slices.set_dimension(piece.slice_dimension);
  slices.set_count(piece.Slices(kSlices));
  for (int64_t i = 0; i < piece.Slices(kSlices); ++i) {
    std::vector<std::string> paths = {piece.SlicePath(i, kSlices)};
    if (i == 0) paths.insert(paths.end(), piece.parameters.begin() + 1, piece.parameters.end());
    AddGroup(paths, GroupChoice::EACH_PHASE, plan);
  }
}

}  // namespace

std::string NameOf(const Mode& mode) {
  constexpr const char* kNames[] = {
      "replicated",          "sharded",          "sharded, gathered once",
      "sharded by operator", "sharded by slice", "optimizer state sharded"};
  return absl::StrCat(kNames[static_cast<int>(mode.storage)], mode.recompute ? ", recomputed" : "");
}

bool CanBe(const Unit& unit, Storage storage) {
  if (storage == Storage::kPieces) return unit.pieces.size() > 1;
  if (storage != Storage::kSlices) return true;
  return absl::c_any_of(unit.pieces, [](const Piece& piece) { return piece.slice_dimension >= 0; });
}

Plan PlanOf(const ModelInfo& model, const std::vector<Unit>& units, const std::vector<Mode>& modes,
            PlanPart::Logits logits, const Settings& settings) {
  PlanBuilder plan;
  plan.Axis(kAxis);
  plan.SplitBatch(model);
  bool gathers = false, buckets = false;
  std::vector<std::string> recomputed;
  for (size_t i = 0; i < units.size(); ++i) {
    const Unit& unit = units[i];
    const Storage storage = modes[i].storage;
    (storage == Storage::kReplicated ? buckets : gathers) = true;
    if (storage == Storage::kSharded) AddGroup(unit.parameters, GroupChoice::EACH_PHASE, plan);
    if (storage == Storage::kOnce) AddGroup(unit.parameters, GroupChoice::ONCE, plan);
    if (storage == Storage::kUpdated) AddGroup(unit.parameters, GroupChoice::AFTER_UPDATE, plan);
    for (const Piece& piece : unit.pieces) {
      if (storage == Storage::kPieces) AddGroup(piece.parameters, GroupChoice::EACH_PHASE, plan);
      if (storage == Storage::kSlices) AddSlicedPiece(piece, plan);
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
  if (settings.sets_micro_batches) plan.MicroBatches(model, settings.micro_batches);
  plan.Recompute(model.graph, recomputed);
  if (logits != PlanPart::LOGITS_UNSET) plan.Logits(model.graph, logits);
  return plan.Build();
}

std::vector<int64_t> Gathers(const Unit& unit, Storage storage) {
  if (storage != Storage::kPieces && storage != Storage::kSlices) {
    return {unit.bytes / kStoredBytes};
  }
  std::vector<int64_t> elements;
  for (const Piece& piece : unit.pieces) {
    const bool sliced = storage == Storage::kSlices && piece.slice_dimension >= 0;
    const int64_t count = sliced ? piece.Slices(kSlices) : 1;
    const int64_t slice = piece.largest_bytes / count / kStoredBytes;
    elements.push_back(piece.bytes / kStoredBytes - (count - 1) * slice);
    elements.insert(elements.end(), count - 1, slice);
  }
  return elements;
}

}  // namespace tessera::strategy::osdp
