// The units of a model whose parameters a strategy decides about together: blocks, and what lies
// outside of them.
#ifndef TESSERA_STRATEGIES_API_UNITS_H_
#define TESSERA_STRATEGIES_API_UNITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "strategies/api/model_info.h"

namespace tessera::strategy {

// Parameters of a unit that are used one after another: a large one, and the small ones behind it.
struct Piece {
  std::vector<std::string> parameters;  // paths, the largest one first
  int64_t bytes = 0;
  int64_t largest_bytes = 0;
  int slice_dimension = -1;  // of the largest one; -1: it cannot be sliced
  int64_t slice_extent = 0;  // its elements along that dimension

  // Returns how many slices are not empty if the largest parameter is divided into `count`.
  int64_t Slices(int64_t count) const;
  // Returns the path of a slice of it: "wte[0:64]".
  std::string SlicePath(int64_t slice, int64_t count) const;
  // Returns the paths of each group of a Plan if the largest parameter is divided into `count`, and
  // the others are in the group of the first slice.
  std::vector<std::vector<std::string>> SlicedGroups(int64_t count) const;
};

// A block, or the parameters that lie in none. They can be one group of a Plan.
struct Unit {
  std::string name;  // "blocks.3", or "parameters outside of blocks (wte, wpe, ln_f)"
  int block = -1;    // in ModelInfo::blocks; -1: it lies in none
  std::vector<std::string> parameters;
  int64_t bytes = 0;        // of the parameters
  int64_t state_bytes = 0;  // and of the optimizer state
  std::vector<Piece> pieces;
};

// Returns the units in the order of the forward pass: those outside of blocks first, as they are
// needed first. A block whose parameters cannot be one group has several units. A parameter can be
// sliced if it has at least `min_slices` elements along a dimension along which it can be split
// (Host::ModelWithSplits). Thread safety: a pure function.
std::vector<Unit> UnitsOf(const ModelInfo& model, int64_t min_slices = 2);

// Return the elements of each array that is gathered if a unit is a group, and if each piece is one
// whose largest parameter, if it can be, is divided into `slices`.
std::vector<int64_t> ArraysOf(const Unit& unit);
std::vector<int64_t> ArraysOfPieces(const Unit& unit, int64_t slices);

}  // namespace tessera::strategy

#endif  // TESSERA_STRATEGIES_API_UNITS_H_
