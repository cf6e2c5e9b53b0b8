// The order of dimensions in which a checkpoint holds a run's states: that of the model's version
// which saved it.
#ifndef TESSERA_CORE_TRAIN_STORED_ORDERS_H_
#define TESSERA_CORE_TRAIN_STORED_ORDERS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/tensor/shape.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/state_shard.h"
#include "core/train/model.h"

namespace tessera {

// Thread safety: immutable.
class StoredOrders {
 public:
  // FailedPrecondition if the checkpoint holds a newer version of the states than the model has.
  static absl::StatusOr<StoredOrders> Create(const Checkpoint& checkpoint, const Model& model);

  // Dimension d of the stored state is dimension order[d] of the run's; empty: the orders are
  // equal.
  absl::Span<const int> Find(absl::string_view path) const;

 private:
  absl::flat_hash_map<std::string, std::vector<int>> orders_;  // by path
};

// The shape in which a checkpoint holds a state of this shape.
Shape StoredShape(const Shape& shape, absl::Span<const int> order);

// Calls `visit` with shards of the stored tensor that together are `shard`, one of the run's, until
// it returns an error, which is the result. The elements of `stored` are those of `shard` from its
// element `first` on, in the same order.
absl::Status ForEachStoredShard(
    const StateShard& shard, absl::Span<const int> order,
    const std::function<absl::Status(const StateShard& stored, int64_t first)>& visit);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_STORED_ORDERS_H_
