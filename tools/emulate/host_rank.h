// The process of a rank between its start by the launcher and its program: it enters the rank's
// host.
#ifndef TESSERA_TOOLS_EMULATE_HOST_RANK_H_
#define TESSERA_TOOLS_EMULATE_HOST_RANK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera {

// The first argument of a process that is a rank of an emulated host.
inline constexpr char kHostRankArgument[] = "tessera-host-rank";

// The same for all ranks of a job.
struct HostRanks {
  int ranks_per_host = 1;
  std::vector<std::string> namespaces;  // the path of each host's
  std::vector<int> cores;               // those that the hosts share out; empty: hosts share cores
};

// Returns the arguments, from the first one on, with which this program runs `program` as a rank.
std::vector<std::string> HostRankArguments(const HostRanks& ranks, const std::string& program,
                                           const std::vector<std::string>& arguments);

// The place of a rank, which differs between ranks.
struct RankOnHost {
  int host = 0;
  int local_rank = 0;
  std::vector<int> cores;  // empty: all
};

// Returns where a rank runs. Each host has an equal number of cores, and so has each rank of a
// host, unless its cores do not divide evenly: then they run on all of the host's.
RankOnHost PlaceRank(const HostRanks& ranks, int rank);

// Becomes the program that HostRankArguments describe, as the rank that the variable RANK says:
// returns only if that fails, with an exit code, after an error was printed. `arguments` start with
// kHostRankArgument.
int RunHostRank(const std::vector<std::string>& arguments);

}  // namespace tessera

#endif  // TESSERA_TOOLS_EMULATE_HOST_RANK_H_
