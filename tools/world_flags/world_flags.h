// The flags of a program that runs as one rank of a job.
#ifndef TESSERA_TOOLS_WORLD_FLAGS_WORLD_FLAGS_H_
#define TESSERA_TOOLS_WORLD_FLAGS_WORLD_FLAGS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "collectives/connected_world.h"
#include "tools/command_line/command_line.h"

namespace tessera {

// --backend, --hosts, --interface, --integrity, --rendezvous and --timeout, for a group of a
// program's flags.
std::vector<FlagEntry> WorldFlags();

// Returns how the ranks of this job communicate, as the parsed flags say. InvalidArgument names a
// flag that does not fit.
absl::StatusOr<comm::WorldOptions> ReadWorldFlags();

}  // namespace tessera

#endif  // TESSERA_TOOLS_WORLD_FLAGS_WORLD_FLAGS_H_
