#include "core/train/state/stored_orders.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/train/optimizer.h"

namespace tessera {

absl::StatusOr<StoredOrders> StoredOrders::Create(const Checkpoint& checkpoint,
                                                  const Model& model) {
  StoredOrders result;
  const int64_t version = checkpoint.state_version();
  if (version == model.state_version()) return result;
  if (version > model.state_version()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the checkpoint ", checkpoint.folder(), " holds version ", version,
                     " of the model's states, and this Tessera has version ", model.state_version(),
                     ": load it with a newer Tessera"));
  }
  for (FormerOrder& former : model.FormerOrders(version)) {
    for (std::string& moment : MomentPaths(former.parameter)) {
      result.orders_.emplace(std::move(moment), former.stored);
    }
    result.orders_.emplace(std::move(former.parameter), std::move(former.stored));
  }
  return result;
}

absl::Span<const int> StoredOrders::Find(absl::string_view path) const {
  const auto found = orders_.find(path);
  return found == orders_.end() ? absl::Span<const int>() : absl::MakeConstSpan(found->second);
}

Shape StoredShape(const Shape& shape, absl::Span<const int> order) {
  if (order.empty()) return shape;
  TESSERA_CHECK(order.size() == shape.size());
  Shape stored;
  for (int d : order) stored.push_back(shape[d]);
  return stored;
}

StateShard StoredPrefix(const StateShard& shard, absl::Span<const int> order) {
  size_t moved = order.size();  // dimensions from here on are in the same order
  while (moved > 0 && order[moved - 1] == static_cast<int>(moved) - 1) --moved;
  if (moved == 0) return shard;
  // A stored shard can have one index of the moved dimensions.
  const int64_t inner = NumElements(absl::MakeConstSpan(shard.box.extent).subspan(moved));
  const int64_t begin = shard.begin % inner;
  int64_t index = shard.begin / inner;
  Box box = shard.box;
  for (size_t d = moved; d-- > 0;) {
    box.start[d] += index % box.extent[d];
    index /= box.extent[d];
    box.extent[d] = 1;
  }
  return {{StoredShape(box.start, order), StoredShape(box.extent, order)},
          begin,
          std::min(begin + shard.size(), inner)};
}

}  // namespace tessera
