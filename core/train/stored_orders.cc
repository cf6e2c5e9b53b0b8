#include "core/train/stored_orders.h"

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

absl::Status ForEachRun(const Shape& shape, absl::Span<const int> order,
                        const std::function<absl::Status(const StoredRun& run)>& visit) {
  const int64_t elements = NumElements(shape);
  if (elements == 0) return absl::OkStatus();
  int moved = static_cast<int>(order.size());  // the dimensions from here on have one order
  while (moved > 0 && order[moved - 1] == moved - 1) --moved;
  const Strides stored_strides = RowMajorStrides(StoredShape(shape, order));
  Strides strides(moved);  // in the stored tensor, by the run's dimensions
  for (int d = 0; d < moved; ++d) strides[order[d]] = stored_strides[d];
  StoredRun run;
  run.count = elements;
  for (int d = 0; d < moved; ++d) run.count /= shape[d];
  std::vector<int64_t> index(moved, 0);
  for (; run.loaded < elements; run.loaded += run.count) {
    RETURN_IF_ERROR(visit(run));
    for (int d = moved - 1; d >= 0; --d) {
      run.stored += strides[d];
      if (++index[d] < shape[d]) break;
      run.stored -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
