#include "tools/world_flags/world_flags.h"

#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "collectives/net/integrity.h"

ABSL_FLAG(
    std::string, backend, "",
    "shm, tcp, hierarchical, or nccl between GPUs; without it, by the hosts that the ranks are on");
ABSL_FLAG(std::vector<std::string>, hosts, {},
          "treat the ranks as if they were on these hosts, by any names: a,a,b,b");
ABSL_FLAG(std::string, interface, "",
          "the address or interface of this host for tcp, and for the rendezvous on rank 0");
ABSL_FLAG(std::string, integrity, "",
          "end the job if bytes are changed between ranks: control (requests, Plans, what ranks "
          "agree on), all (also tensors) or none; without it, control between hosts");
ABSL_FLAG(std::string, rendezvous, "", "where rank 0 listens, if no launcher sets it");
ABSL_FLAG(double, timeout, 60, "seconds that a rank waits for another");

namespace tessera {
namespace {

// The longest time-out: 30 days.
constexpr double kMaxTimeoutSeconds = 30 * 86400;

}  // namespace

std::vector<FlagEntry> WorldFlags() {
  return {{"backend", "NAME"},   {"hosts", "NAME,..."},       {"interface", "NAME"},
          {"integrity", "NAME"}, {"rendezvous", "HOST:PORT"}, {"timeout", "X"}};
}

absl::StatusOr<comm::WorldOptions> ReadWorldFlags() {
  comm::WorldOptions options;
  options.backend = absl::GetFlag(FLAGS_backend);
  options.hosts = absl::GetFlag(FLAGS_hosts);
  options.interface = absl::GetFlag(FLAGS_interface);
  options.rendezvous = absl::GetFlag(FLAGS_rendezvous);
  if (const std::string name = absl::GetFlag(FLAGS_integrity); !name.empty()) {
    const absl::StatusOr<comm::Integrity> integrity = comm::ParseIntegrity(name);
    if (!integrity.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--integrity: ", integrity.status().message()));
    }
    options.integrity = *integrity;
  }
  options.timeout_seconds = absl::GetFlag(FLAGS_timeout);
  if (!(options.timeout_seconds > 0 && options.timeout_seconds <= kMaxTimeoutSeconds)) {
    return absl::InvalidArgumentError(absl::StrCat("--timeout=", options.timeout_seconds,
                                                   " is not a number of seconds above 0 and up to ",
                                                   kMaxTimeoutSeconds));
  }
  return options;
}

}  // namespace tessera
