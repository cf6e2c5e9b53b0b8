// The names of collective operations and of reductions, for programs that contain them and for the
// communicators that run them.
#ifndef TESSERA_CORE_TENSOR_COLLECTIVE_H_
#define TESSERA_CORE_TENSOR_COLLECTIVE_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace tessera {

enum class CollectiveOperation : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kBarrier,
  kSend,
  kReceive,
};
inline constexpr int kCollectiveOperations = 8;

// "all-reduce", ...
absl::string_view CollectiveOperationName(CollectiveOperation operation);

enum class Reduction : uint8_t { kSum, kMax, kMin };

// "sum", "max", "min"
absl::string_view ReductionName(Reduction reduction);

}  // namespace tessera

#endif  // TESSERA_CORE_TENSOR_COLLECTIVE_H_
