// One tensor of a run's state, as checkpoints name it, and the part of it that a rank writes.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_STATE_ENTRY_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_STATE_ENTRY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/tensor/shape.h"
#include "core/train/checkpoint/state_shard.h"

namespace tessera {

// Roles of state: what the model computes with (parameters and running statistics), and what only
// training needs. The two have files of their own, so that a model can be passed on without its
// optimizer.
inline constexpr char kParameterRole[] = "parameter";
inline constexpr char kStatisticRole[] = "statistic";
inline constexpr char kOptimizerRole[] = "optimizer";

inline bool IsStateRole(absl::string_view role) {
  return role == kParameterRole || role == kStatisticRole || role == kOptimizerRole;
}
// For messages.
inline constexpr char kStateRoles[] = "'parameter', 'statistic' or 'optimizer'";

struct StateEntry {
  std::string path;  // of the Graph: "blocks.3.attn.qkv"
  std::string role;  // one of the roles above
  TensorType type;   // of the global tensor, whatever the layout
};

// A shard of one of the states of a list.
struct OwnedShard {
  int state = 0;  // its index
  StateShard shard;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_STATE_ENTRY_H_
