// A collective as a Program states it: what is communicated along which axes of a mesh. It names
// neither the ranks nor an algorithm.
#ifndef TESSERA_CORE_LAYOUT_TRAFFIC_COLLECTIVE_CALL_H_
#define TESSERA_CORE_LAYOUT_TRAFFIC_COLLECTIVE_CALL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/layout/mesh.h"
#include "core/tensor/collective.h"
#include "core/tensor/dtype.h"

namespace tessera {

struct CollectiveCall {
  CollectiveOperation operation = CollectiveOperation::kAllReduce;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;  // of an all-reduce or a reduce-scatter
  std::vector<int> axes;                  // of the mesh: a group is Mesh::GroupsAlong(axes)
  // Elements of the full buffer: of the input and the output of an all-reduce and an all-to-all,
  // of the input of a reduce-scatter, of the output of an all-gather.
  int64_t count = 0;
  // Elements of a rank's part, if the operation has parts. The last parts may be shorter or empty.
  int64_t part = 0;

  friend bool operator==(const CollectiveCall& a, const CollectiveCall& b) {
    return a.operation == b.operation && a.dtype == b.dtype && a.reduction == b.reduction &&
           a.axes == b.axes && a.count == b.count && a.part == b.part;
  }
};

// Returns text like "all-reduce of 12 f32 (sum) along data" or "all-gather of 12 f32 in parts of 6
// along data, model".
std::string ToString(const CollectiveCall& call, const Mesh& mesh);

// Prices of collectives. Strategies and the search for redistributions use them.
//
// Thread safety: const methods may be called by any thread.
class CollectivePrices {
 public:
  virtual ~CollectivePrices() = default;
  // Returns the seconds from the start of the call to its end on the last rank; never negative.
  virtual double Seconds(const CollectiveCall& call, const Mesh& mesh) const = 0;
};

// Prices of ring algorithms: in each step, each of d ranks sends to the next one, which takes a
// latency and the time of its bytes. All-gather, reduce-scatter and all-to-all take d - 1 steps of
// one part, an all-reduce 2 (d - 1) steps of 1/d of the buffer.
class RingPrices final : public CollectivePrices {
 public:
  // The prices are the same for all axes.
  RingPrices(double seconds_per_step, double seconds_per_byte)
      : seconds_per_step_(seconds_per_step), seconds_per_byte_(seconds_per_byte) {}

  double Seconds(const CollectiveCall& call, const Mesh& mesh) const override;

 private:
  const double seconds_per_step_, seconds_per_byte_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_TRAFFIC_COLLECTIVE_CALL_H_
