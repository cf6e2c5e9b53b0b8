// The units of a model whose parameters are decided about together, and how a unit may be stored,
// used and recomputed.
#ifndef TESSERA_STRATEGIES_OSDP_UNITS_H_
#define TESSERA_STRATEGIES_OSDP_UNITS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "strategies/api/kit.h"

namespace tessera::strategy::osdp {

inline constexpr char kAxis[] = "data";  // of the mesh: all ranks

// Parameters of a unit that are used one after another: a large one, and the small ones behind it.
struct Piece {
  std::vector<std::string> parameters;  // the largest one first
  int64_t bytes = 0;
  int64_t largest_bytes = 0;
  int slice_dimension = -1;  // of the largest one; -1: it cannot be sliced
  int64_t slice_extent = 0;  // its elements along that dimension
};

// A block, or the parameters that lie in none.
struct Unit {
  std::string name;  // as explanations name it: "blocks.3"
  std::vector<std::string> parameters;
  std::vector<Piece> pieces;
  int block = -1;  // in ModelInfo::blocks; -1: the root
  int64_t bytes = 0;
  int64_t state_bytes = 0;  // parameters and optimizer state
};

// Returns the units in the order of the forward pass: the roots first, as they are needed first.
std::vector<Unit> UnitsOf(const ModelInfo& model);

enum class Storage {
  kReplicated,
  kSharded,  // gathered for each pass
  kOnce,     // sharded, gathered for the forward pass and kept for the backward pass
  kPieces,   // sharded, each piece gathered by itself, for each pass
  kSlices,   // sharded, and the largest parameter of each piece also in slices
};

inline constexpr Storage kStorages[] = {Storage::kReplicated, Storage::kSharded, Storage::kOnce,
                                        Storage::kPieces, Storage::kSlices};

struct Mode {
  Storage storage = Storage::kReplicated;
  bool recompute = false;

  friend bool operator==(const Mode&, const Mode&) = default;
};

std::string NameOf(const Mode& mode);  // "sharded, recomputed"

// Returns whether a unit can be in a mode that is not the same as a simpler one.
bool CanBe(const Unit& unit, Storage storage);

// The slices of a parameter in Storage::kSlices.
inline constexpr int64_t kSlices = 4;

// The decisions that are not a unit's.
struct Settings {
  int64_t batch = 0;          // 0: the run's
  int64_t micro_batches = 0;  // 0: the run's
  bool slices = false;        // whether units may be in Storage::kSlices
  bool prefetches = true;     // a unit is gathered while the one before it is used
};

// Returns the Plan in which each unit is in its mode.
Plan PlanOf(const ModelInfo& model, const std::vector<Unit>& units, const std::vector<Mode>& modes,
            PlanPart::Logits logits, const Settings& settings);

// Returns the bytes of each gather of a unit's parameters, and of each reduction of its gradients,
// as they are stored.
std::vector<int64_t> BytesOfGathers(const Unit& unit, Storage storage);

}  // namespace tessera::strategy::osdp

#endif  // TESSERA_STRATEGIES_OSDP_UNITS_H_
