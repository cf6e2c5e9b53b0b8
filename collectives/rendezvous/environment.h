// Which rank this process is, and where the ranks meet: from the environment that tools/launch,
// torchrun, Slurm's srun or Open MPI's mpirun sets. The first of these that is found counts:
//
//   RANK, WORLD_SIZE       tools/launch or torchrun, also by hand; with LOCAL_RANK and
//                          LOCAL_WORLD_SIZE, else each rank has a host of its own, unless
//                          MASTER_ADDR is a loopback address
//   OMPI_COMM_WORLD_RANK   Open MPI; with _SIZE, _LOCAL_RANK, _LOCAL_SIZE
//   SLURM_PROCID           srun, in a step of a job; not in a batch script itself
//   none of them           one rank
//
// Where rank 0 is: --rendezvous=HOST:PORT, or MASTER_ADDR and MASTER_PORT; where neither is given,
// the first host of Slurm's node list and a port that follows from the job's and the step's number.
// Under torchrun MASTER_PORT is its agent's, and a port that follows from it is ours.
//
// Where all ranks are on one host only the loopback address is used, whatever was given, and no
// address is needed.
//
// The secret without which nobody can join is TESSERA_SECRET; tools/launch makes it. Where there is
// none, rank 0 makes one if all ranks are on one host, and hands it to processes of the same user
// (local_meeting.h). Across hosts a job without TESSERA_SECRET has no secret, and `note` says so.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_ENVIRONMENT_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_ENVIRONMENT_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera::comm {

struct RankEnvironment {
  std::string launcher = "none";  // "tessera", "torchrun", "slurm", "open mpi"
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // among the ranks of this host
  int local_size = 1;
  bool one_host = true;  // all ranks are on it

  // Where the ranks meet.
  std::string master_host = "127.0.0.1";
  int master_port = 0;  // 0: one that the system chooses, told by the local meeting
  // Rank 0's port is bound already, by tools/launch; -1 if not.
  int listen_fd = -1;
  // Rank 0 chooses the secret, and a free port where `master_port` is 0 or in use, and the other
  // ranks ask it by the job's name.
  bool local_meeting = false;

  std::string job;     // the same for all ranks, another for another job; no secret
  std::string secret;  // may be empty
  std::string note;    // what the user should know; may be empty
};

// The value of an environment variable, or null; as std::getenv.
using EnvironmentLookup = std::function<const char*(const char* name)>;

// `rendezvous` is the value of --rendezvous, or empty. InvalidArgument names the variable that is
// missing, malformed or contradicts another one, and what would be right.
absl::StatusOr<RankEnvironment> ReadRankEnvironment(const EnvironmentLookup& lookup,
                                                    absl::string_view rendezvous);

// Of this process.
absl::StatusOr<RankEnvironment> ReadRankEnvironment(absl::string_view rendezvous);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_ENVIRONMENT_H_
