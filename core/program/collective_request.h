// A collective, send or receive of a Program, without ranks and without an algorithm.
#ifndef TESSERA_CORE_PROGRAM_COLLECTIVE_REQUEST_H_
#define TESSERA_CORE_PROGRAM_COLLECTIVE_REQUEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/collective.h"
#include "core/tensor/dtype.h"

namespace tessera {

// A collective among the ranks whose coordinates differ along `mesh_axes` only, or a message
// between two of them. It names neither ranks nor an algorithm, so the Program is the same on every
// rank and equal work has one key. Calls, bytes and steps are a function of the request, the
// backend and the hosts of the ranks.
//
// Operands are contiguous. Every rank's part has the same size: that of a reduce-scatter's output
// and of an all-gather's input. The root of a broadcast is the first rank of the group.
struct CollectiveRequest {
  CollectiveOperation operation = CollectiveOperation::kAllReduce;
  // Elements of the full buffer: the input of a reduce-scatter, the output of an all-gather, the
  // input and the output of every other operation.
  int64_t elements = 0;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;  // of an all-reduce or reduce-scatter only
  std::vector<std::string> mesh_axes;
  // The group is a ring. A send goes to the rank `shift` positions after this one; a receive comes
  // from the rank `shift` positions before it.
  int shift = 0;

  // Returns text like "all-reduce of 12 f32 (sum) over data".
  std::string ToString() const;

  friend bool operator==(const CollectiveRequest& a, const CollectiveRequest& b) {
    return a.operation == b.operation && a.elements == b.elements && a.dtype == b.dtype &&
           a.reduction == b.reduction && a.mesh_axes == b.mesh_axes && a.shift == b.shift;
  }
};

// Return whether the operation has an input, or an output.
bool HasInput(CollectiveOperation operation);
bool HasOutput(CollectiveOperation operation);
// Returns whether the operation reduces.
bool Reduces(CollectiveOperation operation);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_COLLECTIVE_REQUEST_H_
