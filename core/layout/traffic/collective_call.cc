#include "core/layout/traffic/collective_call.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera {

std::string ToString(const CollectiveCall& call, const Mesh& mesh) {
  const bool reduces = call.operation == CollectiveOperation::kAllReduce ||
                       call.operation == CollectiveOperation::kReduceScatter;
  return absl::StrCat(CollectiveOperationName(call.operation), " of ", call.count, " ",
                      DTypeName(call.dtype),
                      call.part != 0 ? absl::StrCat(" in parts of ", call.part) : "",
                      reduces ? absl::StrCat(" (", ReductionName(call.reduction), ")") : "",
                      " along ", absl::StrJoin(call.axes, ", ", [&](std::string* out, int axis) {
                        absl::StrAppend(out, mesh.axis(axis).name);
                      }));
}

double RingPrices::Seconds(const CollectiveCall& call, const Mesh& mesh) const {
  double ranks = 1;
  for (int axis : call.axes) ranks *= mesh.axis(axis).size;
  const bool all_reduce = call.operation == CollectiveOperation::kAllReduce;
  const double steps = all_reduce ? 2 * (ranks - 1) : ranks - 1;
  const double elements =
      all_reduce ? static_cast<double>(call.count) / ranks : static_cast<double>(call.part);
  return steps * (seconds_per_step_ +
                  seconds_per_byte_ * elements * static_cast<double>(SizeOf(call.dtype)));
}

}  // namespace tessera
