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

// Elements that follow each other in both tensors: `count` of them begin at `stored` in the
// checkpoint and at `loaded` in the run, each row-major.
struct StoredRun {
  int64_t stored = 0;
  int64_t loaded = 0;
  int64_t count = 0;
};

// Calls `visit` with runs that cover a state of this shape, in the order of `loaded`, until one
// returns an error, which is the result.
absl::Status ForEachRun(const Shape& shape, absl::Span<const int> order,
                        const std::function<absl::Status(const StoredRun& run)>& visit);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_STORED_ORDERS_H_
