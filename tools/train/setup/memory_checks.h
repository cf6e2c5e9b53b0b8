// Checks that a compiled run has enough memory.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_MEMORY_CHECKS_H_
#define TESSERA_TOOLS_TRAIN_SETUP_MEMORY_CHECKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "tools/train/flags/flags.h"
#include "tools/train/setup/configure.h"

namespace tessera {

// Checks the memory of a rank against its bound: config.memory_limit, or the memory of a described
// cluster's devices. ResourceExhausted names the smallest
// limit that could be met, and settings with which the run would need less: to find them, rank 0
// plans and compiles it again with each. Collective, and an agreed error.
absl::Status CheckMemoryLimit(const CommandLine& line, const ConfiguredRun& configured,
                              const CompiledRun& compiled);

// Returns notes of hosts that lack memory for ranks whose arenas have `bytes` each. If the ranks
// share memory, a lack is an agreed error: each reserves its memory when it begins and might find
// enough, and later the system would kill one. If memory is too small even for one rank, the
// reservation reports that rank. Collective.
absl::StatusOr<std::vector<std::string>> CheckMemoryOfHosts(int64_t bytes,
                                                            const RunRanks& run_ranks);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_MEMORY_CHECKS_H_
