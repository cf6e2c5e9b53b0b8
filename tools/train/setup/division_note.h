// A note for runs in which ranks are idle, or repeat each other's work.
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

// Returns why the ranks of a run divide the work of a step so badly that a quarter of them or more
// bring nothing, and the remedy; "" if they do not, or if the run does not train. `recorded` are
// the Graphs that were compiled.
std::string DivisionNote(absl::Span<const Graph> recorded, const CompiledRun& run,
                         const RunConfig& config);

// The same for a division of the work among the ranks of a mesh.
std::string DivisionNote(const WorkDivision& division, const Mesh& mesh, const RunConfig& config);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_DIVISION_NOTE_H_
