// Slurm's short forms: "gpu[01-03,7],login" for hosts, "4(x3),2" for tasks on each of them.
//
// Thread safety: pure functions.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_SLURM_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_SLURM_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera::comm {

// Returns the first host of a node list: "gpu01" for the one above. InvalidArgument describes the
// fault; the caller adds where the list came from.
absl::StatusOr<std::string> FirstSlurmHost(absl::string_view node_list);

// Returns the tasks on node `node` (the first is 0): 4, 4, 4 and 2 for the one above.
// InvalidArgument also if the list has no such node.
absl::StatusOr<int64_t> SlurmTasksOfNode(absl::string_view tasks_per_node, int64_t node);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_SLURM_H_
