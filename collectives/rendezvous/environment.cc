#include "collectives/rendezvous/environment.h"

#include <climits>
#include <cstdint>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "collectives/net/proof.h"
#include "collectives/net/socket_address.h"
#include "collectives/rendezvous/slurm.h"
#include "core/status/status_macros.h"

namespace tessera::comm {
namespace {

constexpr int kMaxRanks = 1 << 16;
constexpr int kMaxPort = 65535;

// Returns a port below those that the system assigns (from 32768 on). It is not close to `number`,
// which may be a port itself: the next job may use the next number as its port.
int PortThatFollows(int64_t number) {
  return static_cast<int>(16384 + (static_cast<uint64_t>(number) + 1013) % 16384);
}

class Variables {
 public:
  explicit Variables(const EnvironmentLookup& lookup) : lookup_(lookup) {}

  // "" if it is not set.
  std::string Text(const char* name) const {
    const char* const value = lookup_(name);
    return value == nullptr ? "" : value;
  }
  bool Has(const char* name) const { return !Text(name).empty(); }
  std::string NameAndValue(const char* name) const { return absl::StrCat(name, "=", Text(name)); }

  absl::StatusOr<int> Number(const char* name, int lowest, int highest) const {
    int number = 0;
    if (!Has(name)) return absl::InvalidArgumentError(absl::StrCat(name, " is not set"));
    if (!absl::SimpleAtoi(Text(name), &number) || number < lowest || number > highest) {
      return absl::InvalidArgumentError(absl::StrCat(
          NameAndValue(name), " is not a whole number from ", lowest, " to ", highest));
    }
    return number;
  }

 private:
  const EnvironmentLookup& lookup_;
};

// The names of a launcher's variables.
struct RankNames {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

absl::Status ReadRankAndSize(const Variables& variables, const RankNames& names,
                             RankEnvironment* environment) {
  if (variables.Has(names.rank) != variables.Has(names.size)) {
    const bool has_rank = variables.Has(names.rank);
    return absl::InvalidArgumentError(
        absl::StrCat(variables.NameAndValue(has_rank ? names.rank : names.size), " is set and ",
                     has_rank ? names.size : names.rank, " is not: set both, or neither"));
  }
  ASSIGN_OR_RETURN(environment->size, variables.Number(names.size, 1, kMaxRanks));
  ASSIGN_OR_RETURN(environment->rank, variables.Number(names.rank, 0, kMaxRanks));
  if (environment->rank < environment->size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      variables.NameAndValue(names.rank), " is not below ", variables.NameAndValue(names.size)));
}

// Checks the local rank and size against the rank and size.
absl::Status CheckLocal(const Variables& variables, const RankNames& names,
                        const RankEnvironment& environment) {
  const std::string local_rank = absl::StrCat(names.local_rank, "=", environment.local_rank);
  const std::string local_size = absl::StrCat(names.local_size, "=", environment.local_size);
  if (environment.local_rank >= environment.local_size) {
    return absl::InvalidArgumentError(absl::StrCat(local_rank, " is not below ", local_size));
  }
  if (environment.local_size > environment.size) {
    return absl::InvalidArgumentError(
        absl::StrCat(local_size, " is more than ", variables.NameAndValue(names.size)));
  }
  if (environment.local_rank > environment.rank) {
    return absl::InvalidArgumentError(
        absl::StrCat(local_rank, " is more than ", variables.NameAndValue(names.rank)));
  }
  return absl::OkStatus();
}

absl::Status ReadTorchrun(const Variables& variables, RankEnvironment* environment) {
  constexpr RankNames kNames = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
  environment->launcher = variables.Has("TESSERA_LAUNCH") ? "tessera" : "torchrun";
  RETURN_IF_ERROR(ReadRankAndSize(variables, kNames, environment));
  if (variables.Has(kNames.local_rank) || variables.Has(kNames.local_size)) {
    ASSIGN_OR_RETURN(environment->local_rank, variables.Number(kNames.local_rank, 0, kMaxRanks));
    ASSIGN_OR_RETURN(environment->local_size, variables.Number(kNames.local_size, 1, kMaxRanks));
    RETURN_IF_ERROR(CheckLocal(variables, kNames, *environment));
  } else if (IsLoopback(variables.Text("MASTER_ADDR"))) {
    environment->local_rank = environment->rank;
    environment->local_size = environment->size;
  }
  environment->job = absl::StrCat(environment->launcher, "-", variables.Text("TORCHELASTIC_RUN_ID"),
                                  "-", variables.Text("MASTER_PORT"));
  if (variables.Has("TESSERA_LISTEN_FD")) {
    ASSIGN_OR_RETURN(environment->listen_fd, variables.Number("TESSERA_LISTEN_FD", 0, INT_MAX));
  }
  return absl::OkStatus();
}

absl::Status ReadOpenMpi(const Variables& variables, RankEnvironment* environment) {
  constexpr RankNames kNames = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
  environment->launcher = "open mpi";
  RETURN_IF_ERROR(ReadRankAndSize(variables, kNames, environment));
  ASSIGN_OR_RETURN(environment->local_rank, variables.Number(kNames.local_rank, 0, kMaxRanks));
  ASSIGN_OR_RETURN(environment->local_size, variables.Number(kNames.local_size, 1, kMaxRanks));
  RETURN_IF_ERROR(CheckLocal(variables, kNames, *environment));
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}) {
    if (environment->job.empty() && variables.Has(name)) {
      environment->job = absl::StrCat("open mpi-", variables.Text(name));
    }
  }
  return absl::OkStatus();
}

// Returns whether this process is a task of a step, for which srun sets the step's number. A batch
// script and the shell of an interactive job have SLURM_PROCID=0 too, but their step has no number
// or one that Slurm reserves (from 0xfffffff0 on, in some places negative).
bool IsSlurmTask(const Variables& variables) {
  if (!variables.Has("SLURM_PROCID")) return false;
  int64_t step = 0;
  if (variables.Has("SLURM_STEP_ID") && absl::SimpleAtoi(variables.Text("SLURM_STEP_ID"), &step)) {
    return step >= 0 && step < 0xfffffff0;
  }
  return variables.Has("SLURM_STEP_NODELIST") || variables.Text("ENVIRONMENT") != "BATCH";
}

// Returns the number of this job's tasks on this node.
absl::StatusOr<int> SlurmLocalSize(const Variables& variables, const RankEnvironment& environment) {
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    if (!variables.Has(name)) continue;
    int node = 0;
    if (variables.Has("SLURM_NODEID")) {
      ASSIGN_OR_RETURN(node, variables.Number("SLURM_NODEID", 0, kMaxRanks));
    }
    const absl::StatusOr<int64_t> tasks = SlurmTasksOfNode(variables.Text(name), node);
    if (!tasks.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": ", tasks.status().message()));
    }
    if (*tasks >= 1 && *tasks <= environment.size) return static_cast<int>(*tasks);
    return absl::InvalidArgumentError(absl::StrCat(variables.NameAndValue(name), ": ", *tasks,
                                                   " tasks on node ", node, " of a job with ",
                                                   environment.size));
  }
  if (variables.Has("SLURM_NTASKS_PER_NODE")) {
    return variables.Number("SLURM_NTASKS_PER_NODE", 1, kMaxRanks);
  }
  if (environment.size == 1) return 1;
  return absl::InvalidArgumentError(
      "neither SLURM_STEP_TASKS_PER_NODE nor SLURM_NTASKS_PER_NODE is set, which srun does");
}

absl::Status ReadSlurm(const Variables& variables, RankEnvironment* environment) {
  const RankNames names = {
      "SLURM_PROCID",
      variables.Has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
      "SLURM_LOCALID", "tasks on this node"};
  environment->launcher = "slurm";
  RETURN_IF_ERROR(ReadRankAndSize(variables, names, environment));
  ASSIGN_OR_RETURN(environment->local_rank, variables.Number(names.local_rank, 0, kMaxRanks));
  ASSIGN_OR_RETURN(environment->local_size, SlurmLocalSize(variables, *environment));
  RETURN_IF_ERROR(CheckLocal(variables, names, *environment));
  ASSIGN_OR_RETURN(const int job, variables.Number("SLURM_JOB_ID", 0, INT_MAX));
  int step = 0;
  if (variables.Has("SLURM_STEP_ID")) {
    ASSIGN_OR_RETURN(step, variables.Number("SLURM_STEP_ID", 0, INT_MAX));
  }
  environment->job = absl::StrCat("slurm-", job, ".", step);
  environment->master_port = PortThatFollows(job + int64_t{step} * 101);
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    if (!environment->master_host.empty() || !variables.Has(name)) continue;
    const absl::StatusOr<std::string> host = FirstSlurmHost(variables.Text(name));
    if (!host.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": ", host.status().message()));
    }
    environment->master_host = *host;
  }
  return absl::OkStatus();
}

struct Address {
  std::string host;  // empty: unknown
  int port = 0;      // 0: unknown
};

// Parses the value of --rendezvous, HOST:PORT.
absl::StatusOr<Address> ParseRendezvous(absl::string_view text) {
  Address address;
  const size_t colon = text.rfind(':');
  absl::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (colon == absl::string_view::npos || host.empty() ||
      (!bracketed && absl::StrContains(host, ':')) ||
      !absl::SimpleAtoi(text.substr(colon + 1), &address.port) || address.port < 1 ||
      address.port > kMaxPort) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rendezvous: '", text, "' is not HOST:PORT, such as node1:29500 or [fe80::1]:29500"));
  }
  address.host = std::string(host);
  return address;
}

// Returns the address of rank 0 that the user or the launcher sets.
absl::StatusOr<Address> ReadAddress(const Variables& variables, absl::string_view rendezvous) {
  Address address;
  address.host = variables.Text("MASTER_ADDR");
  if (variables.Has("MASTER_PORT")) {
    ASSIGN_OR_RETURN(address.port, variables.Number("MASTER_PORT", 1, kMaxPort));
  }
  const std::string agent = variables.Text("TORCHELASTIC_USE_AGENT_STORE");
  const bool is_of_agent = agent == "True" || agent == "true" || agent == "1";
  if (is_of_agent && address.port != 0) address.port = PortThatFollows(address.port);
  if (rendezvous.empty()) return address;
  ASSIGN_OR_RETURN(const Address flag, ParseRendezvous(rendezvous));
  if (!is_of_agent && ((!address.host.empty() && address.host != flag.host) ||
                       (address.port != 0 && address.port != flag.port))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rendezvous=", rendezvous, " contradicts ", variables.NameAndValue("MASTER_ADDR"), " ",
        variables.NameAndValue("MASTER_PORT"), ": give one of them"));
  }
  return flag;
}

absl::Status NoAddress(const RankEnvironment& environment) {
  return absl::InvalidArgumentError(
      absl::StrCat("rank ", environment.rank, " of ", environment.size, ", started by ",
                   environment.launcher, ", does not know the address of rank 0: give every rank ",
                   "--rendezvous=HOST:PORT with rank 0's host and a free port of it, or set ",
                   "MASTER_ADDR and MASTER_PORT"));
}

// Refuses a secret that is easy to guess. A job without a secret has one made for it, or is checked
// below.
absl::Status CheckSecret(absl::string_view secret) {
  if (secret.empty() || static_cast<int64_t>(secret.size()) >= kMinSecretCharacters) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "TESSERA_SECRET has ", secret.size(), secret.size() == 1 ? " character" : " characters",
      ", and whoever records a connection can guess it: set it to ", kMinSecretCharacters,
      " random ones or more, the same on every rank, for example of `openssl rand -hex 16`"));
}

// Checks a job over several hosts that has no secret.
absl::Status CheckNoSecret(const Variables& variables, RankEnvironment* environment) {
  const std::string risk = absl::StrCat(
      "TESSERA_SECRET is not set, and anyone who reaches ",
      FormatAddress(environment->master_host, environment->master_port), " could join this job");
  if (variables.Text("TESSERA_ALLOW_NO_SECRET") == "1") {
    environment->note =
        absl::StrCat(risk, "; without a secret, digests (--integrity) show accidents only");
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(risk, ": set it to the same random text on every rank (for example of `openssl ",
                   "rand -hex 16`), or set TESSERA_ALLOW_NO_SECRET=1 in a network that you trust"));
}

// Sets the address of rank 0, the secret, and how ranks find them (`one_host`,
// `discovers_locally`), from the variables and the flag. The ranks and sizes must be set.
absl::Status SetAddressAndSecret(const Variables& variables, absl::string_view rendezvous,
                                 RankEnvironment* environment) {
  ASSIGN_OR_RETURN(const Address address, ReadAddress(variables, rendezvous));
  if (!address.host.empty()) environment->master_host = address.host;
  if (address.port != 0) environment->master_port = address.port;
  environment->secret = variables.Text("TESSERA_SECRET");
  environment->one_host = environment->local_size == environment->size || IsLoopback(address.host);
  const bool has_secret = !environment->secret.empty();
  if (environment->size > 1) {
    RETURN_IF_ERROR(CheckSecret(environment->secret));
  }
  if (environment->size == 1) environment->master_port = 0;  // no other rank has to find it
  if (environment->one_host) {
    environment->master_host = "127.0.0.1";
    environment->discovers_locally =
        environment->size > 1 && (!has_secret || environment->master_port == 0);
    if (!environment->discovers_locally || !environment->job.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("PMIX_NAMESPACE is not set, by which ranks that ", environment->launcher,
                     " started on one host find each other: set TESSERA_SECRET, and give ",
                     "--rendezvous=127.0.0.1:PORT with a free port"));
  }
  if (environment->master_host.empty() || environment->master_port == 0) {
    return NoAddress(*environment);
  }
  return has_secret ? absl::OkStatus() : CheckNoSecret(variables, environment);
}

}  // namespace

absl::StatusOr<RankEnvironment> ReadRankEnvironment(const EnvironmentLookup& lookup,
                                                    absl::string_view rendezvous) {
  const Variables variables(lookup);
  RankEnvironment environment;
  environment.master_host.clear();
  if (variables.Has("RANK")) {
    RETURN_IF_ERROR(ReadTorchrun(variables, &environment));
  } else if (variables.Has("OMPI_COMM_WORLD_RANK")) {
    RETURN_IF_ERROR(ReadOpenMpi(variables, &environment));
  } else if (IsSlurmTask(variables)) {
    RETURN_IF_ERROR(ReadSlurm(variables, &environment));
  } else if (variables.Has("WORLD_SIZE") && variables.Text("WORLD_SIZE") != "1") {
    // Returns an error, since RANK is missing.
    RETURN_IF_ERROR(ReadTorchrun(variables, &environment));
  } else {
    if (rendezvous.empty()) return RankEnvironment();
    return absl::InvalidArgumentError(absl::StrCat(
        "--rendezvous=", rendezvous, " is set, and the rank of this process is not:",
        " start it by tools/launch, torchrun, srun or mpirun, or set RANK and ", "WORLD_SIZE"));
  }
  RETURN_IF_ERROR(SetAddressAndSecret(variables, rendezvous, &environment));
  return environment;
}

absl::StatusOr<RankEnvironment> ReadRankEnvironment(absl::string_view rendezvous) {
  return ReadRankEnvironment([](const char* name) -> const char* { return std::getenv(name); },
                             rendezvous);
}

}  // namespace tessera::comm
