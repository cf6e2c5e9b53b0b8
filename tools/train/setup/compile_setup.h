// Records and compiles the Graphs of a run, by its Plan or a strategy.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_COMPILE_SETUP_H_
#define TESSERA_TOOLS_TRAIN_SETUP_COMPILE_SETUP_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/graph/graph.h"
#include "core/train/programs.h"
#include "tools/train/flags/flags.h"
#include "tools/train/setup/setup.h"

namespace tessera {

// The Graphs that a mode needs.
RunParts PartsOf(Mode mode);

// Sets setup->compiled and setup->estimated, and adds notes; the rest of `setup` is there. Compiles
// the run together with the other ranks, if there are any. Collective.
absl::Status CompileSetup(const CommandLine& line, Setup* setup);

// Compiles other Graphs by the Plan that a setup has completed, which decides about paths that they
// have in common with the Graphs of the run. Collective; errors are agreed ones.
absl::StatusOr<CompiledRun> CompileByPlanOf(const CommandLine& line, const Setup& setup,
                                            const std::vector<Graph>& graphs);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_COMPILE_SETUP_H_
