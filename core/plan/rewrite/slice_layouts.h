// The layouts of the values of a Graph over the slices of its parameters. Slices are a split in
// time instead of over devices, so the operators' layout signatures say how each op is computed on
// slices.
//
// Thread safety: a pure function.
#ifndef TESSERA_CORE_PLAN_REWRITE_SLICE_LAYOUTS_H_
#define TESSERA_CORE_PLAN_REWRITE_SLICE_LAYOUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/ids/table.h"
#include "core/layout/layout.h"
#include "core/plan/graph/time_split_writer.h"

namespace tessera {

// A parameter that is stored in slices: its n elements along one dimension are divided into `count`
// slices of ceil(n / count) elements. The last slice may be shorter.
struct SlicedParameter {
  std::string path;
  int dimension = 0;
  int64_t count = 0;
  int64_t elements = 0;                      // n
  std::vector<std::string> optimizer_state;  // paths of the states that are sliced with it, sorted

  // begin(k) and end(k) return the first element of slice k, and one past its last.
  int64_t begin(int64_t k) const { return k * Largest(); }
  int64_t end(int64_t k) const { return k + 1 < count ? (k + 1) * Largest() : elements; }
  int64_t Largest() const { return (elements + count - 1) / count; }
};

struct SliceDecisions {
  std::vector<SlicedParameter> parameters;
  // The position in `parameters`, by path of a parameter or of its optimizer state.
  absl::flat_hash_map<std::string, int> of_state;

  // Returns that position, which is also the axis of the state's slices; kNone if it has none.
  int AxisOf(const std::string& path) const {
    const auto it = of_state.find(path);
    return it == of_state.end() ? kNone : it->second;
  }
};

// Says how one op runs.
struct SliceSchedule {
  int axis = kNone;  // the op runs once for each slice of this parameter; kNone: once
  // The op only rearranges a parameter, or a constant beside it. Each slice of it runs right before
  // the first op that reads it, so that no two slices need to be in memory at the same time.
  bool late = false;
  Signature signature;  // by which each slice is computed
};

struct SliceLayouts {
  // Axis i is the slices of parameter i. Values that are split and not gathered are read slice by
  // slice; all others are read in full.
  TimeSplit split;
  Table<OpId, SliceSchedule> ops;
};

// Chooses how each op runs. An op runs slice by slice if it reads a sliced state, or a value that
// is computed slice by slice from one, or if it records a gradient of an op that does; then it
// takes the dual of that op's signature. Split results stay split if they are computed from states
// alone, are gradients of split values, or are part of the update. Other split results are
// assembled, and partial results are added up, in the order of the slices. An op that computes the
// value of a sliced state computes it in slices if it has a signature for that.
//
// InvalidArgument, in one line, names an op that reads a sliced parameter but has no signature for
// it, or that reads two sliced parameters.
absl::StatusOr<SliceLayouts> LayOutSlices(const Graph& graph, const SliceDecisions& decisions);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_REWRITE_SLICE_LAYOUTS_H_
