// Joins processes to a world without a launcher, for tests and the conformance program.
#ifndef TESSERA_COLLECTIVES_TESTING_CONNECT_PROCESS_H_
#define TESSERA_COLLECTIVES_TESTING_CONNECT_PROCESS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "collectives/connected_world.h"

namespace tessera::comm {

// Joins a job as a process that torchrun has started on this host. Changes the environment of the
// process. `job` is the same on all ranks, and unique on the host.
absl::StatusOr<std::unique_ptr<ConnectedWorld>> ConnectProcess(int rank, int ranks,
                                                               const std::string& job,
                                                               const WorldOptions& options);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_TESTING_CONNECT_PROCESS_H_
