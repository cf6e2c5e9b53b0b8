// The variables by which launchers report a process's rank to it.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_RANK_ENVIRONMENT_H_
#define TESSERA_STRATEGIES_CONFORMANCE_RANK_ENVIRONMENT_H_

#include <map>
#include <optional>
#include <string>

namespace tessera {

// Sets the variables of torchrun, Slurm, Open MPI and MPICH as long as it exists. Not thread-safe.
class RankEnvironmentGuard {
 public:
  RankEnvironmentGuard(int rank, int ranks);
  ~RankEnvironmentGuard();
  RankEnvironmentGuard(const RankEnvironmentGuard&) = delete;
  RankEnvironmentGuard& operator=(const RankEnvironmentGuard&) = delete;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_RANK_ENVIRONMENT_H_
