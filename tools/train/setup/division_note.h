// How the ranks of a run divide its work, and a note if they are idle or repeat it.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_DIVISION_NOTE_H_
#define TESSERA_TOOLS_TRAIN_SETUP_DIVISION_NOTE_H_

#include <string>

#include "absl/types/span.h"
#include "core/compile/compile.h"
#include "core/cost/work_division.h"
#include "core/graph/graph.h"
#include "core/layout/mesh.h"
#include "core/train/config/run_config.pb.h"

namespace tessera {

// Returns the division of the training step of a run; without one, that of no work, of which no
// rank repeats any. `recorded` are the Graphs that were compiled.
WorkDivision DivisionOfStep(absl::Span<const Graph> recorded, const CompiledRun& run);

// Returns why the ranks of a mesh divide the work of a step so badly that a quarter of them or more
// bring nothing, and the remedy; "" if they do not.
std::string DivisionNote(const WorkDivision& division, const Mesh& mesh, const RunConfig& config);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_DIVISION_NOTE_H_
