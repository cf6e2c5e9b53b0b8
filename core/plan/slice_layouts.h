// The layouts of the values of a Graph over the slices of its parameters. Slices are a split in
// time instead of over devices, so the operators' layout signatures say how each op is computed on
// them.
//
// Thread safety: a pure function.
#ifndef TESSERA_CORE_PLAN_SLICE_LAYOUTS_H_
#define TESSERA_CORE_PLAN_SLICE_LAYOUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/layout/layout.h"
#include "core/plan/time_split_writer.h"

namespace tessera {

// A parameter that is stored in slices: `count` parts of ceil(n / count) of the n elements along a
// dimension, of which the last one may be shorter.
struct SlicedParameter {
  std::string path;
  int dimension = 0;
  int64_t count = 0;
  int64_t elements = 0;                      // n
  std::vector<std::string> optimizer_state;  // paths of what is sliced with it, sorted

  // The first element of slice k, and one past its last.
  int64_t begin(int64_t k) const { return k * Largest(); }
  int64_t end(int64_t k) const { return k + 1 < count ? (k + 1) * Largest() : elements; }
  int64_t Largest() const { return (elements + count - 1) / count; }
};

struct SliceDecisions {
  std::vector<SlicedParameter> parameters;
  // The position in `parameters`, by path of a parameter or of its optimizer state.
  absl::flat_hash_map<std::string, int> of_state;
};

// How one op runs.
struct SliceSchedule {
  int axis = kNone;  // once for each slice of this parameter; kNone: once
  // It only rearranges a parameter, or a constant beside it: each slice of it runs right before the
  // first op that reads it, so that no two slices need be there at the same time.
  bool late = false;
  Signature signature;  // by which each slice is computed
};

struct SliceLayouts {
  // Axis i is the slices of parameter i. Values that are split and not gathered are read as they
  // are; all others are full to what reads them.
  TimeSplit split;
  std::vector<SliceSchedule> ops;
};

// An op runs slice by slice if it reads a sliced state, or what follows slice by slice from one, or
// if it records a gradient of an op that does; then it takes the dual of that op's signature. Split
// results stay split if they follow from states alone, are gradients of what is split, or are part
// of the update; other split results are assembled, and partial ones added up, in the order of the
// slices. An op that makes the value of a sliced state makes it in slices if it has a signature for
// that.
//
// InvalidArgument, in one line, names an op that reads a sliced parameter and has no signature that
// takes it, or that reads two parameters which are sliced.
absl::StatusOr<SliceLayouts> LayOutSlices(const Graph& graph, const SliceDecisions& decisions);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_SLICE_LAYOUTS_H_
