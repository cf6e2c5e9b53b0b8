// For backends: quantities that are derived from a request, and the form of a request that other
// ranks receive.
//
// Thread safety: pure functions.
#ifndef TESSERA_COLLECTIVES_REQUESTS_H_
#define TESSERA_COLLECTIVES_REQUESTS_H_

#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "collectives/reduce/reduce.h"

namespace tessera::comm {

// Returns whether the buffer of the operation is split into parts, one for each rank.
inline bool HasParts(Operation operation) {
  return operation == Operation::kReduceScatter || operation == Operation::kAllGather ||
         operation == Operation::kAllToAll;
}

// A request without its buffers, as other ranks see it.
struct RequestDescriptor {
  Operation operation = Operation::kBarrier;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  uint8_t partial = 0;  // 1: Request::partial
  int32_t peer = 0;
  int64_t count = 0, part = 0;
  bool operator==(const RequestDescriptor& other) const = default;
};
static_assert(sizeof(RequestDescriptor) == 24, "no byte of it is undefined");
// Returns whether bytes that a peer has sent are a valid descriptor.
bool IsValid(const RequestDescriptor& descriptor);
RequestDescriptor DescriptorOf(const Request& request);
Request RequestOf(const RequestDescriptor& descriptor);

// "the ranks of group 'world' disagree on operation 7: rank 0 requests barrier, rank 2 requests
// ...". descriptors[i], which need not be valid, is that of rank ranks[i], or of rank i if `ranks`
// is empty. Sends and receives pass 0 as `number`, and the text then has none.
absl::Status Disagreement(absl::string_view group, uint64_t number,
                          absl::Span<const RequestDescriptor> descriptors,
                          absl::Span<const int> ranks = {});
// Returns a Disagreement if not all descriptors are equal.
absl::Status CompareRequests(absl::string_view group, uint64_t number,
                             absl::Span<const RequestDescriptor> descriptors,
                             absl::Span<const int> ranks = {});

// Return the elements that a rank reads from its input, and writes to its output.
int64_t InputElements(const Request& request, int rank);
int64_t OutputElements(const Request& request, int rank);

// Returns the elements of rank `from`'s input on which the output of rank `to` of a collective
// depends.
Part InputFor(const Request& request, int from, int to);
// Writes the output of `rank` in a collective. inputs[r] are the elements InputFor(request, r,
// rank).
void WriteOutput(const Request& request, int rank, absl::Span<const void* const> inputs);

// Returns the elements of a full part of an all-reduce, in which each rank reduces one part. Parts
// start at multiples of a cache line, so that no two ranks write to the same line.
inline int64_t AllReducePart(int64_t count, int ranks) {
  constexpr int64_t kElementsPerLine = 64;
  return ((count + ranks - 1) / ranks + kElementsPerLine - 1) / kElementsPerLine * kElementsPerLine;
}

// Returns the elements that a rank sends to others if it sends each part of its input to the rank
// that reduces or needs that part, and its own part to all that need it. 0 for operations without
// parts.
int64_t ElementsSent(const Request& request, int rank, int ranks);

inline const char* Bytes(const void* data, int64_t offset) {
  return static_cast<const char*>(data) + offset;
}
inline char* Bytes(void* data, int64_t offset) { return static_cast<char*>(data) + offset; }

inline void Copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

// Writes `count` elements of a reduce-scatter's output, beginning at `position` in the rank's part.
// `inputs` are the same elements of each rank. `non_temporal` as for Reduce.
inline void ReduceOwnPart(const Request& request, absl::Span<const void* const> inputs,
                          int64_t position, int64_t count, bool non_temporal = false) {
  if (request.partial) {
    char* const output = Bytes(request.output, position * SizeOf(PartialDType(request.dtype)));
    ReducePartially(inputs, output, count, request.dtype, request.reduction);
  } else {
    char* const output = Bytes(request.output, position * SizeOf(request.dtype));
    Reduce(inputs, {output}, count, request.dtype, request.reduction, non_temporal);
  }
}

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_REQUESTS_H_
