// Sketches of the tensors that ranks hold, so that they can be compared without being gathered.
#ifndef TESSERA_TOOLS_COMPARE_HELD_SKETCH_H_
#define TESSERA_TOOLS_COMPARE_HELD_SKETCH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/runtime/engine.h"
#include "tools/compare/rank_sketches.pb.h"
#include "tools/compare/tensor_sketch.h"

namespace tessera {

// Returns the sketch of the elements of a Program's value that the engine's rank holds, under the
// path of the recorded tensor that the value is, or is a slice of. Reads the value in chunks.
absl::StatusOr<RankSketches::Held> SketchOfValue(Engine& engine, absl::string_view program,
                                                 ProgramValueId value, absl::string_view path);

// A global tensor, from the shards of all ranks.
struct SketchedTensor {
  std::string path;
  TensorSketch sketch;
  // The rank that differs most from the first rank that holds the same elements, that first rank,
  // and the distance of the two. -1: no two ranks hold the same elements, or they are equal.
  int rank = -1;
  int first_rank = -1;
  double rank_distance = 0;
};

// Adds up the shards of each tensor; ranks[r] are those of rank r. If several ranks hold the same
// elements, those of the first one count. The tensors are in the order in which rank 0 has them.
std::vector<SketchedTensor> MergeShards(absl::Span<const std::vector<RankSketches::Held>> ranks);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_HELD_SKETCH_H_
