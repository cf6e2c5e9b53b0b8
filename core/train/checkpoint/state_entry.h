// One tensor of a run's state, as checkpoints name it, and the part of it that a rank writes.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_STATE_ENTRY_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_STATE_ENTRY_H_

#include <string>

#include "core/tensor/shape.h"
#include "core/train/checkpoint/state_shard.h"

namespace tessera {

// Roles of state: what the model computes with, and what only training needs. Each role has a file
// of its own, so that a model can be passed on without its optimizer.
inline constexpr char kParameterRole[] = "parameter";
inline constexpr char kOptimizerRole[] = "optimizer";

struct StateEntry {
  std::string path;  // of the Graph: "blocks.3.attn.qkv"
  std::string role;  // kParameterRole or kOptimizerRole
  TensorType type;   // of the global tensor, whatever the layout
};

// A shard of one of the states of a list.
struct OwnedShard {
  int state = 0;  // its index
  StateShard shard;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_STATE_ENTRY_H_
