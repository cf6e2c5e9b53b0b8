// Records and compiles the Graphs of a run, by its Plan or a strategy.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_COMPILE_SETUP_H_
#define TESSERA_TOOLS_TRAIN_SETUP_COMPILE_SETUP_H_

#include "absl/status/status.h"
#include "core/train/programs.h"
#include "tools/train/flags/flags.h"
#include "tools/train/setup/setup.h"

namespace tessera {

// The Graphs that a mode needs.
RunParts PartsOf(Mode mode);

// Sets setup->compiled and setup->estimated, and adds notes; the rest of `setup` is there. Compiles
// the run together with the other ranks, if there are any. Collective.
absl::Status CompileSetup(const CommandLine& line, Setup* setup);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_COMPILE_SETUP_H_
