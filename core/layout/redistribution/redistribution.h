// Redistribution: the steps with which ranks bring a value from one layout on a mesh to another.
#ifndef TESSERA_CORE_LAYOUT_REDISTRIBUTION_REDISTRIBUTION_H_
#define TESSERA_CORE_LAYOUT_REDISTRIBUTION_REDISTRIBUTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/traffic/collective_call.h"
#include "core/sync/mutex.h"
#include "core/tensor/shape.h"

namespace tessera {

// A change of the layout along one axis, or along several at once, on padded local buffers. `from`
// and `to` are the layouts of the value before and after the step.
//
// Splits that a step removes or adds are the innermost ones of their dimensions. The group of a
// step along several axes has its ranks in the mesh's order, however the splits nest: its
// collective exchanges the parts in this order, and reduces in it.
struct RedistributionStep {
  enum class Kind : uint8_t {
    kAllGather,      // splits -> B: the parts of the group's ranks, each in its place
    kReduceScatter,  // P -> splits: of the reduced value, each rank its part
    kAllReduce,      // P -> B
    kAllToAll,       // splits -> splits of other dimensions: of each rank's part, the others' parts
    kSlice,          // B -> S(d), local, along one axis
    kZeroElsewhere,  // B or S(d) -> P(sum), local, along one axis: the part in its place and zeros
                     // around it; of B, coordinate 0 keeps the value and the others have zeros
  };

  Kind kind = Kind::kSlice;
  absl::InlinedVector<int, 4> axes;  // in the mesh's order
  MeshLayout from;
  MeshLayout to;

  // Returns text like "all-gather along data: data: S(0) => B" or "all-reduce along data and model:
  // data: P, model: P => B".
  std::string ToString(const Mesh& mesh) const;
};

// Returns text like "all-gather".
absl::string_view KindName(RedistributionStep::Kind kind);

// Returns `layout` with B along `axes`.
MeshLayout WithBroadcast(MeshLayout layout, absl::Span<const int> axes);

// Returns whether no split along another axis is inside the splits along `axes`, which must all be
// splits.
bool AreInnermost(const MeshLayout& layout, absl::Span<const int> axes);

// Returns the reduction of the collective that completes a partial layout; for P(lse), that of the
// collective after the maximum.
Reduction ReductionOf(const AxisLayout& partial);

// Returns the collectives of a step, in order, for a value of a global type; none for a local step.
// P(lse) is completed by a maximum all-reduce, a local rescaling to exp(x - max), a sum, and a
// local max + log(sum).
//
// If parts are not consecutive in memory (the split dimension is not the outermost one of the
// buffer, or ranks are not in the order of their parts), the buffer is packed into parts before the
// collective, or unpacked after it.
std::vector<CollectiveCall> CollectivesOf(const RedistributionStep& step, const TensorType& type,
                                          const Mesh& mesh);
// The same with the padded local shapes before and after the step.
std::vector<CollectiveCall> CollectivesOf(const RedistributionStep& step, DType dtype,
                                          const Shape& input, const Shape& output,
                                          const Mesh& mesh);

// Returns the sum of the prices of the steps' collectives, in seconds.
double SecondsOf(absl::Span<const RedistributionStep> steps, const TensorType& type,
                 const Mesh& mesh, const CollectivePrices& prices);

struct Redistribution {
  std::vector<RedistributionStep> steps;
  double seconds = 0;  // the sum of the prices of its collectives

  // Returns one line for each step.
  std::string ToString(const Mesh& mesh) const;
};

// A redistribution that Programs run.
struct UsedRedistribution {
  MeshLayout from;
  MeshLayout to;
  TensorType type;
  const Redistribution* path = nullptr;
};

class LayoutGraphs;

// Finds the cheapest redistributions on one mesh, and caches them.
//
// A redistribution is a shortest path over steps, and the price of a step is that of its
// collectives. Intermediate layouts may split dimensions in units of 1 or in the units of `from`
// and `to`, and may be partial only along axes on which `from` or `to` is partial. So a
// redistribution to the same layout costs 0, a path through a third such layout is never cheaper,
// and a value that is not partial is only moved, without changes to its bits. (Without the rule
// about partial axes, a reduce-scatter of zeros would be used to move data, because S -> P is
// free.) Among paths with the same price, one with the fewest steps is chosen, and among these one
// that sums along inner axes before outer ones. The choice is deterministic, and does not depend on
// earlier calls.
//
// On meshes of more than four axes of more than one rank, steps are along those axes only that
// must move (moving_axes.h), and a third layout may give a cheaper path. If more than four must
// move, the path is reductions, gathers and slices (gather_and_split.h).
//
// Thread safety: any number of threads may call all methods.
class RedistributionFinder {
 public:
  // `prices` must outlive the object.
  RedistributionFinder(Mesh mesh, const CollectivePrices* prices);
  ~RedistributionFinder();

  const Mesh& mesh() const { return mesh_; }

  // From now on, Find returns these steps instead of the cheapest ones. InvalidArgument if
  // CheckPath (stated_path.h) refuses them, or the redistribution is known: others were stated, or
  // it was found.
  absl::Status State(const MeshLayout& from, const MeshLayout& to, const TensorType& type,
                     std::vector<RedistributionStep> steps);

  // Returns the steps after which each rank holds the elements that `to` says. In the layouts of
  // the steps an axis of one rank is B, and the last layout may be equivalent to `to`
  // (HoldSameElements) instead of equal. The result is valid as long as this object.
  // InvalidArgument if a layout does not fit the type, or no steps lead to `to`: a P(max), P(min)
  // or P(lse) along an axis can only come from the same layout along it.
  absl::StatusOr<const Redistribution*> Find(const MeshLayout& from, const MeshLayout& to,
                                             const TensorType& type);
  // The same for a Program that runs the steps: used() lists them.
  absl::StatusOr<const Redistribution*> Use(const MeshLayout& from, const MeshLayout& to,
                                            const TensorType& type);
  // Returns the redistributions of more than no step that Use returned, sorted by type, `from` and
  // `to`. They are valid as long as this object.
  std::vector<UsedRedistribution> used() const;

 private:
  using Key = std::tuple<MeshLayout, MeshLayout, Shape, DType>;
  struct Known {
    std::unique_ptr<const Redistribution> path;  // never null
    bool used = false;
  };

  absl::StatusOr<Known*> FindOrSearch(const MeshLayout& from, const MeshLayout& to,
                                      const TensorType& type) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Mesh mesh_;
  const CollectivePrices* const prices_;
  mutable Mutex mutex_;
  absl::flat_hash_map<Key, Known> known_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Key, std::vector<RedistributionStep>> stated_ ABSL_GUARDED_BY(mutex_);
  const std::unique_ptr<LayoutGraphs> graphs_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_REDISTRIBUTION_REDISTRIBUTION_H_
