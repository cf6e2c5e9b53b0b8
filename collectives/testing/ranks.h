// Ranks that are processes, for tests. (Threads: collectives/fake.)
#ifndef TESSERA_COLLECTIVES_TESTING_RANKS_H_
#define TESSERA_COLLECTIVES_TESTING_RANKS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/exchange.h"

namespace tessera::comm {

using RankBody = std::function<absl::Status(int rank, const Exchange& exchange)>;

// Runs body(rank, exchange) in a forked process for each rank, and returns their results: Cancelled
// ("signal 9") for a process that was ended by a signal. Must be called before this process has
// threads.
std::vector<absl::Status> RunProcesses(int ranks, const RankBody& body);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_TESTING_RANKS_H_
