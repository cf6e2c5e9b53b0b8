// The rank of this process and the address of rank 0, from the environment that tools/launch,
// torchrun, Slurm's srun or Open MPI's mpirun sets. The first of these that is set counts:
//
//   RANK, WORLD_SIZE       tools/launch or torchrun, also by hand; with LOCAL_RANK and
//                          LOCAL_WORLD_SIZE, else each rank has a host of its own, unless
//                          MASTER_ADDR is a loopback address
//   OMPI_COMM_WORLD_RANK   Open MPI; with _SIZE, _LOCAL_RANK, _LOCAL_SIZE
//   SLURM_PROCID           srun, in a step of a job; not in a batch script itself
//   none of them           one rank
//
// The address of rank 0 is --rendezvous=HOST:PORT, or MASTER_ADDR and MASTER_PORT. If neither is
// set, it is the first host of Slurm's node list and a port derived from the numbers of the job and
// the step. Under torchrun MASTER_PORT belongs to its agent, and the port is derived from it.
//
// If all ranks are on one host, only the loopback address is used, whatever the variables say, and
// no address is needed.
//
// TESSERA_SECRET is the secret that a rank must know to join; tools/launch makes it. One of the
// user's own must have at least kMinSecretCharacters (collectives/net/proof.h). If it is not set
// and all ranks are on one host, rank 0 makes one and hands it to processes of the same user
// (local_discovery.h). A job over several hosts without TESSERA_SECRET is refused, unless
// TESSERA_ALLOW_NO_SECRET=1: anyone who reaches rank 0 could join it.
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

  // The address of rank 0.
  std::string master_host = "127.0.0.1";
  int master_port = 0;  // 0: the system chooses one, and local discovery reports it
  // An inherited descriptor of this process, bound to rank 0's port by tools/launch, which the
  // rendezvous takes over; -1 if there is none.
  int listen_fd = -1;
  // Rank 0 chooses the secret, and a free port if `master_port` is 0 or in use. The other ranks
  // find both by the job's name (local_discovery.h).
  bool discovers_locally = false;

  std::string job;     // the same for all ranks, different for each job; not secret
  std::string secret;  // may be empty
  std::string note;    // a message for the user; may be empty
};

// The value of an environment variable, or null; as std::getenv.
using EnvironmentLookup = std::function<const char*(const char* name)>;

// Reads the variables by `lookup`. `rendezvous` is the value of --rendezvous, or empty.
// InvalidArgument names the variable that is missing, malformed or contradicts another one, and
// gives the remedy.
absl::StatusOr<RankEnvironment> ReadRankEnvironment(const EnvironmentLookup& lookup,
                                                    absl::string_view rendezvous);

// Reads the environment of this process.
absl::StatusOr<RankEnvironment> ReadRankEnvironment(absl::string_view rendezvous);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_ENVIRONMENT_H_
