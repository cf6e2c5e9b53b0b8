#include "strategies/osdp/units.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace tessera::strategy::osdp {
namespace {

// Divides parameters, in the order in which they are used, before each one that is large: at least
// a sixteenth of all.
std::vector<Piece> PiecesOf(const std::vector<const ParameterInfo*>& parameters, int64_t bytes) {
  std::vector<Piece> pieces;
  for (const ParameterInfo* const parameter : parameters) {
    const bool large = parameter->bytes >= bytes / 16;
    if (pieces.empty() || (large && pieces.back().largest_bytes >= bytes / 16)) {
      pieces.emplace_back();
    }
    Piece& piece = pieces.back();
    piece.bytes += parameter->bytes;
    if (parameter->bytes <= piece.largest_bytes) {
      piece.parameters.push_back(parameter->path);
      continue;
    }
    piece.largest_bytes = parameter->bytes;
    piece.parameters.insert(piece.parameters.begin(), parameter->path);
    piece.slice_dimension = -1;
    for (const int dimension : parameter->split_dimensions) {
      if (parameter->type.shape(dimension) < kSlices) continue;
      piece.slice_dimension = dimension;
      piece.slice_extent = parameter->type.shape(dimension);
      break;
    }
  }
  return pieces;
}

// The path of a slice of a parameter.
std::string SlicePath(const Piece& piece, int64_t slice) {
  const int64_t size = (piece.slice_extent + kSlices - 1) / kSlices;
  const int64_t end = std::min(piece.slice_extent, (slice + 1) * size);
  return absl::StrCat(piece.parameters[0], "[", slice * size, ":", end, "]");
}

// How many slices are not empty.
int64_t SlicesOf(const Piece& piece) {
  const int64_t size = (piece.slice_extent + kSlices - 1) / kSlices;
  return (piece.slice_extent + size - 1) / size;
}

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
  slices.set_count(SlicesOf(piece));
  for (int64_t i = 0; i < SlicesOf(piece); ++i) {
    std::vector<std::string> paths = {SlicePath(piece, i)};
    if (i == 0) paths.insert(paths.end(), piece.parameters.begin() + 1, piece.parameters.end());
    AddGroup(paths, GroupChoice::EACH_PHASE, plan);
  }
}

}  // namespace

std::vector<Unit> UnitsOf(const ModelInfo& model) {
  absl::flat_hash_map<std::string, const ParameterInfo*> by_path;
  for (const ParameterInfo& parameter : model.parameters) by_path[parameter.path] = &parameter;
  std::vector<Unit> units;
  for (const FlatGroup& group : DivideIntoGroups(model)) {
    Unit unit;
    std::vector<const ParameterInfo*> members;
    for (const std::string& path : group.parameters) {
      const ParameterInfo& parameter = *by_path.at(path);
      members.push_back(&parameter);
      unit.block = std::max(unit.block, parameter.block);
      unit.state_bytes += parameter.bytes;
      for (const OptimizerStateInfo& state : parameter.optimizer_states) {
        unit.state_bytes += state.bytes;
      }
    }
    if (group.root) unit.block = -1;
    unit.parameters = group.parameters;
    unit.bytes = group.bytes;
    unit.pieces = PiecesOf(members, group.bytes);
    unit.name = unit.block >= 0 ? model.blocks[unit.block] : "parameters outside of blocks";
    units.push_back(std::move(unit));
  }
  std::stable_partition(units.begin(), units.end(),
                        [](const Unit& unit) { return unit.block < 0; });
  return units;
}

std::string NameOf(const Mode& mode) {
  constexpr const char* kNames[] = {"replicated", "sharded", "sharded, gathered once",
                                    "sharded by operator", "sharded by slice"};
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
    const Storage storage = modes[i].storage;
    (storage == Storage::kReplicated ? buckets : gathers) = true;
    if (storage == Storage::kSharded) AddGroup(units[i].parameters, GroupChoice::EACH_PHASE, plan);
    if (storage == Storage::kOnce) AddGroup(units[i].parameters, GroupChoice::ONCE, plan);
    for (const Piece& piece : units[i].pieces) {
      if (storage == Storage::kPieces) AddGroup(piece.parameters, GroupChoice::EACH_PHASE, plan);
      if (storage == Storage::kSlices) AddSlicedPiece(piece, plan);
    }
    if (modes[i].recompute && units[i].block >= 0 &&
        !absl::c_linear_search(recomputed, units[i].name)) {
      recomputed.push_back(units[i].name);
    }
  }
  if (buckets) plan.stage().add_pass()->mutable_bucket_gradients();
  if (gathers) {
    if (settings.prefetches) plan.stage().add_pass()->mutable_prefetch_gathers()->set_distance(1);
    plan.stage().add_pass()->mutable_limit_gathers()->set_in_flight(settings.prefetches ? 2 : 1);
  }
  if (settings.batch > 0) plan.Batch(settings.batch);
  if (settings.micro_batches > 0) plan.MicroBatches(model, settings.micro_batches);
  plan.Recompute(model.graph, recomputed);
  if (logits != PlanPart::LOGITS_UNSET) plan.Logits(model.graph, logits);
  return plan.Build();
}

std::vector<int64_t> BytesOfGathers(const Unit& unit, Storage storage) {
  if (storage != Storage::kPieces && storage != Storage::kSlices) return {unit.bytes};
  std::vector<int64_t> bytes;
  for (const Piece& piece : unit.pieces) {
    if (storage == Storage::kPieces || piece.slice_dimension < 0) {
      bytes.push_back(piece.bytes);
      continue;
    }
    const int64_t count = SlicesOf(piece), slice = piece.largest_bytes / count;
    bytes.push_back(piece.bytes - (count - 1) * slice);
    bytes.insert(bytes.end(), count - 1, slice);
  }
  return bytes;
}

}  // namespace tessera::strategy::osdp
