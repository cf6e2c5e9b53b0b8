// Records and compiles the Graphs of a run, by its Plan or a strategy.
#ifndef TESSERA_TOOLS_TRAIN_COMPILE_SETUP_H_
#define TESSERA_TOOLS_TRAIN_COMPILE_SETUP_H_

#include "absl/status/statusor.h"
#include "core/program/compile.h"
#include "core/train/programs.h"
#include "tools/train/flags.h"
#include "tools/train/setup.h"

namespace tessera {

// The Graphs that a mode needs.
RunParts PartsOf(Mode mode);

// Compiles the run, together with the other ranks if there are any. `setup` has everything but the
// compiled run; notes are added to it. Collective.
absl::StatusOr<CompiledRun> CompileSetup(const CommandLine& line, Setup* setup);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_COMPILE_SETUP_H_
