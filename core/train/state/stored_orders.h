// The orders of dimensions in which a checkpoint stores a run's states. They are those of the
// version of the model that saved it.
#ifndef TESSERA_CORE_TRAIN_STATE_STORED_ORDERS_H_
#define TESSERA_CORE_TRAIN_STATE_STORED_ORDERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/model/model.h"
#include "core/tensor/shape.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/state_shard.h"

namespace tessera {

// Thread safety: immutable.
class StoredOrders {
 public:
  // Returns FailedPrecondition if the checkpoint holds a newer version of the states than the model
  // has.
  static absl::StatusOr<StoredOrders> Create(const Checkpoint& checkpoint, const Model& model);

  // Returns `order`: dimension d of the stored state is dimension order[d] of the run's state. It
  // is empty if both have the same order.
  absl::Span<const int> Find(absl::string_view path) const;

 private:
  absl::flat_hash_map<std::string, std::vector<int>> orders_;  // by path
};

// Returns the shape in which a checkpoint stores a state of this shape.
Shape StoredShape(const Shape& shape, absl::Span<const int> order);

// Returns the shard of the stored tensor that has the first elements of `shard`, a shard of a run's
// state with at least one element, in the same order: as many as one shard can have.
StateShard StoredPrefix(const StateShard& shard, absl::Span<const int> order);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_STATE_STORED_ORDERS_H_
