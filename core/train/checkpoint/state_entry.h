// One piece of the state of a run, as checkpoints name it.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_STATE_ENTRY_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_STATE_ENTRY_H_

#include <string>

#include "core/tensor/shape.h"

namespace tessera {

// What the model computes with, and what only training needs: each has its own file, so that the
// model can be handed on without its optimizer.
inline constexpr char kParameterRole[] = "parameter";
inline constexpr char kOptimizerRole[] = "optimizer";

struct StateEntry {
  std::string path;  // of the Graph: "blocks.3.attn.qkv"
  std::string role;  // kParameterRole or kOptimizerRole
  TensorType type;   // of the whole tensor, whatever the layout
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_STATE_ENTRY_H_
