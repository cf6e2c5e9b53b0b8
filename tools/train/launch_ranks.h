// Starts the ranks of --nproc=N: processes of this program, through the launcher of tools/launch.
#ifndef TESSERA_TOOLS_TRAIN_LAUNCH_RANKS_H_
#define TESSERA_TOOLS_TRAIN_LAUNCH_RANKS_H_

#include <optional>
#include <string>
#include <vector>

#include "core/train/model.h"

namespace tessera {

// Call first in main, in a process with one thread. Returns the exit code if this process was
// started as part of the launcher, or has started the ranks that the command line asks for and seen
// them end. Returns nothing if the process is to run the command line itself, or to report that it
// is wrong.
std::optional<int> LaunchRanks(int argc, char** argv, const ModelDefinition& definition);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_LAUNCH_RANKS_H_
