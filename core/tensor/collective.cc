#include "core/tensor/collective.h"

#include <cstddef>

namespace tessera {

absl::string_view CollectiveOperationName(CollectiveOperation operation) {
  constexpr absl::string_view kNames[kCollectiveOperations] = {
      "all-reduce", "reduce-scatter", "all-gather", "all-to-all",
      "broadcast",  "barrier",        "send",       "receive"};
  return kNames[static_cast<size_t>(operation)];
}

absl::string_view ReductionName(Reduction reduction) {
  constexpr absl::string_view kNames[] = {"sum", "max", "min"};
  return kNames[static_cast<size_t>(reduction)];
}

}  // namespace tessera
