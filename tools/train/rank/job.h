// The job that this process is a rank of.
#ifndef TESSERA_TOOLS_TRAIN_RANK_JOB_H_
#define TESSERA_TOOLS_TRAIN_RANK_JOB_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/connected_world.h"
#include "core/posix/available_cores.h"
#include "core/posix/file_descriptor.h"
#include "core/train/ranks/ranks.h"

namespace tessera {

// The variable in which the program that starts ranks passes them the flags with which it starts
// them.
inline constexpr char kLaunchFlagsVariable[] = "TESSERA_LAUNCH_FLAGS";

// Not thread-safe.
class Job {
 public:
  // Collective over the job's ranks, as the environment describes them. A process that no launcher
  // started is a job of one rank, which has no peers.
  static absl::StatusOr<std::unique_ptr<Job>> Join(const comm::WorldOptions& options);
  // Collective over ranks that are threads of this process (collectives/fake). `world` must outlive
  // the result.
  static absl::StatusOr<std::unique_ptr<Job>> OfThreads(comm::World* world);

  Ranks& ranks() { return *ranks_; }
  // "2 ranks, shm"; "" for one rank.
  std::string Description() const;
  // Returns the flags that start the ranks again, " --nproc=2 --max_restarts=3", for a command that
  // resumes the run; "" for one rank, or if another launcher has started them.
  std::string LaunchFlags() const;
  // "shm" for one rank.
  const std::string& backend() const;
  // Returns the name of the host of each rank, from --hosts if set.
  const std::vector<std::string>& hosts() const { return hosts_; }
  // Returns whether --hosts names ranks of one host as if they were on several.
  bool emulates_hosts() const { return emulates_hosts_; }
  // The number of this job's ranks on this rank's host.
  int ranks_of_host() const { return ranks_of_host_; }
  // Returns the number of cores for this rank: all cores that only it may use if a launcher has
  // given each rank its own, else an equal share of those that it shares with other ranks of its
  // host. At least 1.
  int cores() const { return cores_; }
  // For the user.
  const std::vector<std::string>& notes() const { return notes_; }

  // Returns true for the first rank of this host that calls it: if several ranks find an error at
  // the same time, that one reports it.
  bool ClaimReport();

  // Must be the last call: with OK if this rank is done, otherwise with an error, which ends the
  // other ranks.
  absl::Status Leave(const absl::Status& why);

 private:
  // `hosts` are those of WorldOptions.
  absl::Status JoinWorld(comm::World* world, const std::vector<std::string>& hosts);
  absl::Status FindHosts(const std::vector<std::string>& hosts);

  std::unique_ptr<comm::ConnectedWorld> connected_;  // null for one rank, and for threads
  comm::World* world_ = nullptr;                     // null for one rank
  std::unique_ptr<Ranks> ranks_;                     // destroyed before the world
  std::vector<std::string> hosts_ = {""};
  bool emulates_hosts_ = false;
  int ranks_of_host_ = 1;
  int cores_ = AvailableCores();
  std::vector<std::string> notes_;
  std::string report_name_;  // of a socket, random and the same on all ranks
  FileDescriptor report_;    // bound to that name: this rank reports
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_RANK_JOB_H_
