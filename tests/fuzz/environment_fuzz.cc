// Checks that arbitrary variables of a launcher yield a consistent rank and address, or an error.
// The first line of the input is --rendezvous, and each other line the value of a variable; an
// empty one is not set.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "collectives/rendezvous/environment.h"
#include "core/status/check.h"

namespace tessera::comm {
namespace {

constexpr const char* kNames[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TESSERA_LAUNCH",
    "TESSERA_LISTEN_FD",
    "TESSERA_SECRET",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_NAMESPACE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_TASKS_PER_NODE",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_STEP_NODELIST",
    "SLURM_JOB_NODELIST",
    "ENVIRONMENT",
    "TESSERA_ALLOW_NO_SECRET",
};

}  // namespace
}  // namespace tessera::comm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::comm;  // NOLINT(google-build-using-namespace)
  const std::vector<std::string> lines =
      absl::StrSplit(absl::string_view(reinterpret_cast<const char*>(data), size), '\n');
  std::map<std::string, std::string> variables;
  for (size_t i = 0; i < std::size(kNames) && i + 1 < lines.size(); ++i) {
    if (!lines[i + 1].empty()) variables[kNames[i]] = lines[i + 1];
  }
  const absl::StatusOr<RankEnvironment> read = ReadRankEnvironment(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      lines[0]);
  if (!read.ok()) {
    TESSERA_CHECK(absl::IsInvalidArgument(read.status())) << read.status();
    TESSERA_CHECK(!read.status().message().empty()) << "no message";
    return 0;
  }
  const RankEnvironment& job = *read;
  TESSERA_CHECK(job.rank >= 0 && job.rank < job.size) << job.rank;
  TESSERA_CHECK(job.local_rank >= 0 && job.local_rank < job.local_size) << job.local_rank;
  TESSERA_CHECK(job.local_size <= job.size && job.local_rank <= job.rank) << job.local_size;
  TESSERA_CHECK(job.master_port >= 0 && job.master_port <= 65535) << job.master_port;
  TESSERA_CHECK(job.listen_fd >= -1) << job.listen_fd;
  const bool has_address = !job.master_host.empty() && job.master_port != 0;
  TESSERA_CHECK(job.size == 1 || job.discovers_locally || has_address) << job.master_host;
  TESSERA_CHECK(!job.discovers_locally || (job.one_host && !job.job.empty())) << job.job;
  return 0;
}
