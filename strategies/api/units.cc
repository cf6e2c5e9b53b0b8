#include "strategies/api/units.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "strategies/api/flat_groups.h"

namespace tessera::strategy {
namespace {

constexpr int64_t kStoredBytes = 4;  // of an element: parameters are stored in f32

// The elements of each slice but the last one.
int64_t SliceSize(int64_t extent, int64_t count) { return (extent + count - 1) / count; }

// Returns the outermost scopes of parameters, or the first few of them: "wte, wpe, ln_f".
std::string ScopesOf(const std::vector<std::string>& paths) {
  constexpr size_t kMost = 4;
  std::vector<std::string> scopes;
  for (const std::string& path : paths) {
    std::string scope = path.substr(0, path.find('.'));
    if (absl::c_linear_search(scopes, scope)) continue;
    if (scopes.size() == kMost) scope = "...";
    scopes.push_back(std::move(scope));
    if (scopes.size() > kMost) break;
  }
  return absl::StrJoin(scopes, ", ");
}

// Divides parameters, in the order in which they are used, before each one that is large: at least
// a sixteenth of all.
std::vector<Piece> PiecesOf(const std::vector<const ParameterInfo*>& parameters, int64_t bytes,
                            int64_t min_slices) {
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
      if (parameter->type.shape(dimension) < min_slices) continue;
      piece.slice_dimension = dimension;
      piece.slice_extent = parameter->type.shape(dimension);
      break;
    }
  }
  return pieces;
}

}  // namespace

int64_t Piece::Slices(int64_t count) const {
  const int64_t size = SliceSize(slice_extent, count);
  return (slice_extent + size - 1) / size;
}

std::string Piece::SlicePath(int64_t slice, int64_t count) const {
  const int64_t size = SliceSize(slice_extent, count);
  return absl::StrCat(parameters[0], "[", slice * size, ":",
                      std::min(slice_extent, (slice + 1) * size), "]");
}

std::vector<Unit> UnitsOf(const ModelInfo& model, int64_t min_slices) {
  std::map<std::string, const ParameterInfo*> by_path;
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
    unit.pieces = PiecesOf(members, group.bytes, min_slices);
    unit.name = unit.block >= 0 ? model.blocks[unit.block]
                                : absl::StrCat("parameters outside of blocks (",
                                               ScopesOf(unit.parameters), ")");
    units.push_back(std::move(unit));
  }
  std::stable_partition(units.begin(), units.end(),
                        [](const Unit& unit) { return unit.block < 0; });
  return units;
}

std::vector<std::vector<std::string>> Piece::SlicedGroups(int64_t count) const {
  std::vector<std::vector<std::string>> groups;
  for (int64_t i = 0; i < Slices(count); ++i) groups.push_back({SlicePath(i, count)});
  groups[0].insert(groups[0].end(), parameters.begin() + 1, parameters.end());
  return groups;
}

std::vector<int64_t> ArraysOf(const Unit& unit) { return {unit.bytes / kStoredBytes}; }

std::vector<int64_t> ArraysOfPieces(const Unit& unit, int64_t slices) {
  std::vector<int64_t> elements;
  for (const Piece& piece : unit.pieces) {
    const int64_t count = piece.slice_dimension < 0 ? 1 : piece.Slices(slices);
    const int64_t slice = piece.largest_bytes / count / kStoredBytes;
    elements.push_back(piece.bytes / kStoredBytes - (count - 1) * slice);
    elements.insert(elements.end(), count - 1, slice);
  }
  return elements;
}

}  // namespace tessera::strategy
