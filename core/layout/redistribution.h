// Redistribution: how ranks bring a value from one layout on a mesh to another.
#ifndef TESSERA_CORE_LAYOUT_REDISTRIBUTION_H_
#define TESSERA_CORE_LAYOUT_REDISTRIBUTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/layout/collective_call.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/sync/mutex.h"
#include "core/tensor/shape.h"

namespace tessera {

// A change of the layout along one axis, on padded local buffers. Splits that a step removes are
// the innermost of their dimension, and so are those that it makes. `from` and `to` are the layouts
// of the value before and after it.
struct RedistributionStep {
  enum class Kind : uint8_t {
    kAllGather,      // S(d) -> B: parts of the group's ranks one after another along d
    kReduceScatter,  // P -> S(d): the reduced value, part c along d on coordinate c
    kAllReduce,      // P -> B
    kAllToAll,       // S(d) -> S(e): split along e, exchanged, put one after another along d
    kSlice,          // B -> S(d): local
    kZeroElsewhere,  // B or S(d) -> P(sum), local: the part in its place and zeros around it; of B,
                     // coordinate 0 keeps the value and the others have zeros
  };

  Kind kind = Kind::kSlice;
  int axis = 0;
  MeshLayout from;
  MeshLayout to;

  // "all-gather along data: data: S(0) => B"
  std::string ToString(const Mesh& mesh) const;
};

// The reduction of the collective that completes a partial layout: of P(lse), the one after the
// maximum is known.
Reduction ReductionOf(const AxisLayout& partial);

// The collectives of a step, in order, for a value of a global type; none of a local one. A
// P(lse) is completed by a maximum all-reduce, a local rescaling to exp(x - max), a sum, and a
// local max + log(sum).
//
// Where parts do not follow each other in memory (the split dimension is not the outermost one of
// the buffer), the buffer is packed into parts before, or unpacked after the collective.
std::vector<CollectiveCall> CollectivesOf(const RedistributionStep& step, const TensorType& type,
                                          const Mesh& mesh);

struct Redistribution {
  std::vector<RedistributionStep> steps;
  double seconds = 0;  // the sum of the prices of its collectives

  // One step a line.
  std::string ToString(const Mesh& mesh) const;
};

// Finds the cheapest redistributions on one mesh, and keeps them.
//
// A redistribution is a shortest path over steps, whose prices are those of their collectives. On
// the way may be all layouts that split dimensions in units of 1 or in those of the two ends, and
// are partial along axes where an end is. So the price of a value's own layout is 0, a way through
// a third layout of this kind is never cheaper, and the bits of a value that is not partial only
// move. (Without the last rule a reduce-scatter of zeros would move data, since S -> P is free.) Of
// paths of one price, one with the fewest steps is found, and of those one that sums along inner
// axes before outer ones; always the same one.
//
// Thread safety: any number of threads may call Find.
class RedistributionFinder {
 public:
  // `prices` must outlive the object.
  RedistributionFinder(Mesh mesh, const CollectivePrices* prices)
      : mesh_(std::move(mesh)), prices_(prices) {}

  const Mesh& mesh() const { return mesh_; }

  // Steps after which each rank holds the elements that `to` says. An axis of one rank is B in
  // their layouts, and their last one may be another name of `to` (HoldSameElements). The result
  // is valid as long as this object. InvalidArgument if a layout does not fit the type, or no steps
  // lead to `to`: a P(max), P(min) or P(lse) along an axis comes only from the same.
  absl::StatusOr<const Redistribution*> Find(const MeshLayout& from, const MeshLayout& to,
                                             const TensorType& type);

 private:
  using Key = std::tuple<MeshLayout, MeshLayout, Shape, DType>;

  const Mesh mesh_;
  const CollectivePrices* const prices_;
  Mutex mutex_;
  // Never null.
  absl::flat_hash_map<Key, std::unique_ptr<const Redistribution>> found_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_REDISTRIBUTION_H_
