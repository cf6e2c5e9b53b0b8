#include "tools/train/setup/priced_cluster.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/cost/best_rates.h"
#include "core/cost/cluster.h"
#include "core/cost/machine.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "tools/train/setup/find_cluster.h"
#include "tools/train/setup/machine_rates.h"

namespace tessera {
namespace {

// Little enough not to delay a run; more than most caches hold.
constexpr int64_t kMeasuredBytes = int64_t{128} << 20;

// Sets `value` to the positive number in an environment variable, if that is set.
absl::Status ReadPositive(const char* variable, double* value) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return absl::OkStatus();
  double number = 0;
  if (!absl::SimpleAtod(text, &number) || !(number > 0) || std::isinf(number)) {
    return absl::InvalidArgumentError(
        absl::StrCat(variable, "=", text, " is not a number above 0"));
  }
  *value = number;
  return absl::OkStatus();
}

// Takes over what the environment says about the network between hosts.
absl::Status DescribeNetwork(Cluster* cluster) {
  const char* const name = std::getenv("TESSERA_NETWORK");
  if (name != nullptr) cluster->set_network(name);
  Link& link = *cluster->mutable_between_hosts();
  double bytes_per_second = link.bytes_per_second(), latency = link.latency_seconds();
  RETURN_IF_ERROR(ReadPositive("TESSERA_NETWORK_BYTES_PER_SECOND", &bytes_per_second));
  RETURN_IF_ERROR(ReadPositive("TESSERA_NETWORK_LATENCY_SECONDS", &latency));
  link.set_bytes_per_second(bytes_per_second);
  link.set_latency_seconds(latency);
  return absl::OkStatus();
}

// Returns the cluster of --cluster, or that of this machine, whose rates are measured if they are
// not known.
absl::StatusOr<Cluster> ReadOrMeasureCluster(const CommandLine& line, Backend& backend, DType dtype,
                                             bool tcp) {
  if (!line.cluster.empty()) return ReadNamedCluster(line.cluster);
  const std::string machine = MachineName(backend);
  MachineRates rates = KeepBestRates(BestRatesPath(), machine, {});
  if (!(rates.flops_per_second > 0) || !(rates.bytes_per_second > 0)) {
    ASSIGN_OR_RETURN(const MeasuredRates measured,
                     MeasureRates(backend, DType::kF32, kMeasuredBytes));
    rates = measured.best;
  }
  Cluster cluster =
      ClusterOfMachine(machine, rates, tcp ? CollectiveBackend::kTcp : CollectiveBackend::kShm);
  RETURN_IF_ERROR(DescribeNetwork(&cluster));
  if (!IsHalf(dtype)) return cluster;
  ASSIGN_OR_RETURN(const double rate, MeasureMatmulRate(backend, dtype));
  if (dtype == DType::kBF16) {
    cluster.set_bf16_flops_per_second(rate);
  } else {
    cluster.set_f16_flops_per_second(rate);
  }
  return cluster;
}

// Returns the number of each rank's host, in the order of their first ranks.
std::vector<int> NumberHosts(absl::Span<const std::string> hosts) {
  std::map<std::string, int> numbers;
  std::vector<int> host_of;
  for (const std::string& host : hosts) {
    const int next = static_cast<int>(numbers.size());
    host_of.push_back(numbers.try_emplace(host, next).first->second);
  }
  return host_of;
}

}  // namespace

absl::StatusOr<GroupSite> SiteOfRanks(absl::string_view backend,
                                      absl::Span<const std::string> hosts) {
  GroupSite site;
  ASSIGN_OR_RETURN(site.backend, ParseCollectiveBackend(backend == "fake" ? "shm" : backend));
  site.host_of = NumberHosts(hosts);
  return site;
}

absl::StatusOr<GroupSite> PlannedSite(const CommandLine& line, const Cluster& cluster, int ranks) {
  GroupSite site = SiteOnCluster(cluster, ranks);
  if (!line.world.backend.empty()) {
    ASSIGN_OR_RETURN(const GroupSite named, SiteOfRanks(line.world.backend, {}));
    site.backend = named.backend;
  }
  if (line.world.hosts.empty()) return site;
  if (static_cast<int>(line.world.hosts.size()) != ranks) {
    return absl::InvalidArgumentError(absl::StrCat("--hosts names the hosts of ",
                                                   Counted(line.world.hosts.size(), "rank"),
                                                   ", and there are ", ranks));
  }
  site.host_of = NumberHosts(line.world.hosts);
  return site;
}

absl::StatusOr<int> PlannedRanksOfHost(const CommandLine& line, int ranks) {
  if (!line.world.hosts.empty()) {
    int most = 1;
    for (const std::string& host : line.world.hosts) {
      most = std::max(most, static_cast<int>(absl::c_count(line.world.hosts, host)));
    }
    return most;
  }
  if (line.cluster.empty()) return ranks;
  ASSIGN_OR_RETURN(const Cluster cluster, ReadNamedCluster(line.cluster));
  return cluster.ranks_per_host() == 0 ? ranks : std::min(ranks, cluster.ranks_per_host());
}

absl::StatusOr<Cluster> ClusterOfRun(const CommandLine& line, Backend& backend, DType dtype,
                                     bool tcp, Ranks& ranks) {
  ASSIGN_OR_RETURN(
      const std::string bytes, ranks.BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
        ASSIGN_OR_RETURN(const Cluster cluster, ReadOrMeasureCluster(line, backend, dtype, tcp));
        return cluster.SerializeAsString();
      }));
  Cluster cluster;
  if (cluster.ParseFromString(bytes)) return cluster;
  return absl::InternalError("rank 0 has sent a malformed cluster");
}

}  // namespace tessera
