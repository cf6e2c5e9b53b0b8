// How a unit of parameters may be stored, used and recomputed, and the Plans that do so.
#ifndef TESSERA_STRATEGIES_OSDP_MODES_H_
#define TESSERA_STRATEGIES_OSDP_MODES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "strategies/api/kit.h"
#include "strategies/api/units.h"

namespace tessera::strategy::osdp {

// Axes of the mesh: all ranks; if units are gathered in nodes, the nodes, and the ranks of a node.
inline constexpr char kAxis[] = "data";
inline constexpr char kNodeAxis[] = "node";

enum class Storage {
  kReplicated,
  kSharded,  // gathered for each pass
  kOnce,     // sharded, gathered for the forward pass and kept for the backward pass
  kPieces,   // sharded, each piece gathered by itself, for each pass
  kSlices,   // sharded, and the largest parameter of each piece also in kSlices slices
  kUpdated,  // replicated; optimizer state is sharded, and what it updates is gathered
  kNode,     // sharded, gathered for the forward pass, and for the backward pass within a node
};
inline constexpr Storage kStorages[] = {Storage::kReplicated, Storage::kSharded, Storage::kOnce,
                                        Storage::kPieces,     Storage::kSlices,  Storage::kUpdated,
                                        Storage::kNode};
inline constexpr int64_t kSlices = 4;

struct Mode {
  Storage storage = Storage::kReplicated;
  bool recompute = false;

  friend bool operator==(const Mode&, const Mode&) = default;
};

std::string NameOf(const Mode& mode);  // "sharded, recomputed"

// A run that is planned. All must outlive the spaces.
struct Run {
  const Request& request;
  int64_t batch;            // rows of the global batch
  TesseraContext* context;  // with the Graphs at this batch
  const ModelInfo& model;
  const std::vector<Unit>& units;
  int64_t node_ranks;  // Request::NodeRanks
  Host& host;
};

// Return whether each rank has all of a unit's parameters, and whether its pieces are groups.
inline bool IsWhole(Storage storage) {
  return storage == Storage::kReplicated || storage == Storage::kUpdated;
}
inline bool IsByPiece(Storage storage) {
  return storage == Storage::kPieces || storage == Storage::kSlices;
}
// Returns whether a unit can be in a mode that is not the same as a simpler one.
bool CanBe(const Unit& unit, Storage storage);

// The decisions that are not a unit's, and how they are searched.
struct Settings {
  int64_t micro_batches = 1;
  bool sets_micro_batches = false;  // the Plan decides them
  int64_t batch = 0;                // rows, if the Plan decides them; 0: it does not
  bool slices = false;              // units may be in Storage::kSlices
  bool prefetches = true;           // a unit is gathered while the one before it is used
};

// Returns the Plan in which each unit is in its mode.
Plan PlanOf(const Run& run, const std::vector<Mode>& modes, PlanPart::Logits logits,
            const Settings& settings);

// Returns the elements of each gather of a unit's parameters, and of each reduction of its
// gradients.
std::vector<int64_t> Gathers(const Unit& unit, Storage storage);

}  // namespace tessera::strategy::osdp

#endif  // TESSERA_STRATEGIES_OSDP_MODES_H_
