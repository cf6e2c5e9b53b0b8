#include "core/cost/cluster.h"

#include <cerrno>
#include <cmath>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/ops/operator_list.h"
#include "core/status/status_macros.h"
#include "core/text/byte_order_mark.h"
#include "core/text/first_error.h"
#include "google/protobuf/text_format.h"

namespace tessera {
namespace {

constexpr int64_t kMaxClusterBytes = 65536;

// The rates of a server's core without wide vectors, used if nothing could be measured.
constexpr double kCoreFlops = 50e9, kCoreBytes = 10e9;

// The executor takes 0.01 us (core/runtime:overhead_benchmark); the rest is the start and the end
// of a kernel.
constexpr double kSecondsPerInstruction = 0.5e-6;

// Latencies are the time of a step of up to 4 KiB. Rates are the bytes of a 64 MiB operation
// divided by the rest of its time. See the header.
constexpr double kShmLatency = 3e-6, kShmBytes = 11e9;
constexpr double kLoopbackLatency = 12e-6, kLoopbackBytes = 2e9;
// A round trip between hosts on one switch takes 0.1 ms.
constexpr double kEthernetLatency = 50e-6, kEthernetBytes = 0.94 * 125e6;

// Checks that a number is finite and not negative, and above 0 if it is required.
absl::Status CheckRate(double rate, absl::string_view field, bool required) {
  if (std::isfinite(rate) && (required ? rate > 0 : rate >= 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field,
      rate == 0 ? " is missing: it has to be" : absl::StrCat(" is ", rate, ", and has to be"),
      required ? " above 0" : " 0 or more"));
}

absl::Status CheckLink(const Link& link, absl::string_view name) {
  RETURN_IF_ERROR(CheckRate(link.latency_seconds(), absl::StrCat(name, ".latency_seconds"), false));
  return CheckRate(link.bytes_per_second(), absl::StrCat(name, ".bytes_per_second"), true);
}

void SetLink(double latency_seconds, double bytes_per_second, Link* link) {
  link->set_latency_seconds(latency_seconds);
  link->set_bytes_per_second(bytes_per_second);
}

absl::Status CheckRates(const google::protobuf::RepeatedPtrField<RateOfSize>& rates,
                        absl::string_view name) {
  double before = 0;
  for (const RateOfSize& rate : rates) {
    if (!std::isfinite(rate.flops()) || rate.flops() <= before) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ".flops is ", rate.flops(), " after ", before, ", and has to ascend"));
    }
    if (!(rate.share_of_peak() > 0 && rate.share_of_peak() <= 1)) {
      return absl::InvalidArgumentError(absl::StrCat(name, ".share_of_peak is ",
                                                     rate.share_of_peak(),
                                                     ", and has to be above 0 and at most 1"));
    }
    before = rate.flops();
  }
  return absl::OkStatus();
}

absl::Status CheckOperatorRates(const Cluster& cluster) {
  std::set<absl::string_view> seen;
  for (const OperatorRates& rates : cluster.operator_rates()) {
    if (FindOperator(rates.op()) == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("operator_rates.op is '", rates.op(), "', which is no operator"));
    }
    if (!seen.insert(rates.op()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("operator_rates has two entries for '", rates.op(), "'"));
    }
    if (rates.rates().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("operator_rates of '", rates.op(), "' has no rates"));
    }
    RETURN_IF_ERROR(
        CheckRates(rates.rates(), absl::StrCat("operator_rates of '", rates.op(), "': rates")));
  }
  return absl::OkStatus();
}

absl::Status CheckNccl(const Nccl& nccl) {
  if (!Nccl::Generation_IsValid(nccl.generation())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "nccl.generation is ", static_cast<int>(nccl.generation()), ", which is not known"));
  }
  if (!(nccl.share_of_device() >= 0 && nccl.share_of_device() < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("nccl.share_of_device is ",
                                                   nccl.share_of_device(),
                                                   ", and has to be 0 or more and below 1"));
  }
  return CheckRate(nccl.nvls_bytes_per_second(), "nccl.nvls_bytes_per_second", false);
}

}  // namespace

absl::Status CheckCluster(const Cluster& cluster) {
  RETURN_IF_ERROR(CheckRate(cluster.f32_flops_per_second(), "f32_flops_per_second", true));
  RETURN_IF_ERROR(CheckRate(cluster.bf16_flops_per_second(), "bf16_flops_per_second", false));
  RETURN_IF_ERROR(CheckRate(cluster.f16_flops_per_second(), "f16_flops_per_second", false));
  RETURN_IF_ERROR(CheckRate(cluster.memory_bytes_per_second(), "memory_bytes_per_second", true));
  RETURN_IF_ERROR(CheckRate(cluster.host_bytes_per_second(), "host_bytes_per_second", false));
  RETURN_IF_ERROR(CheckRate(static_cast<double>(cluster.memory_bytes()), "memory_bytes", false));
  RETURN_IF_ERROR(CheckRate(cluster.seconds_per_instruction(), "seconds_per_instruction", false));
  RETURN_IF_ERROR(CheckRate(cluster.ranks_per_host(), "ranks_per_host", false));
  RETURN_IF_ERROR(CheckRates(cluster.product_rates(), "product_rates"));
  RETURN_IF_ERROR(CheckOperatorRates(cluster));
  RETURN_IF_ERROR(CheckNccl(cluster.nccl()));
  if (cluster.has_within_host() || cluster.ranks_per_host() != 1) {
    RETURN_IF_ERROR(CheckLink(cluster.within_host(), "within_host"));
  }
  if (cluster.has_between_hosts() || cluster.ranks_per_host() != 0) {
    RETURN_IF_ERROR(CheckLink(cluster.between_hosts(), "between_hosts"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Cluster> ParseCluster(const std::string& text) {
  Cluster cluster;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(std::string(SkipByteOrderMark(text)), &cluster)) {
    return absl::InvalidArgumentError(
        absl::StrCat("is no cluster: line ", error.line(), ": ", error.message()));
  }
  RETURN_IF_ERROR(CheckCluster(cluster));
  return cluster;
}

absl::StatusOr<Cluster> ReadCluster(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxClusterBytes + 1, '\0');  // one byte more shows that there are too many
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot read the cluster"));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (static_cast<int64_t>(text.size()) > kMaxClusterBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is no cluster: it has more than ", kMaxClusterBytes, " bytes"));
  }
  absl::StatusOr<Cluster> cluster = ParseCluster(text);
  if (cluster.ok()) return cluster;
  return absl::Status(cluster.status().code(),
                      absl::StrCat(path, ": ", cluster.status().message()));
}

Cluster ClusterOfMachine(const std::string& name, const MachineRates& rates,
                         CollectiveBackend backend) {
  Cluster cluster;
  cluster.set_name(name);
  cluster.set_f32_flops_per_second(rates.flops_per_second > 0 ? rates.flops_per_second
                                                              : kCoreFlops);
  cluster.set_memory_bytes_per_second(rates.bytes_per_second > 0 ? rates.bytes_per_second
                                                                 : kCoreBytes);
  cluster.set_seconds_per_instruction(kSecondsPerInstruction);
  if (backend == CollectiveBackend::kTcp) {
    SetLink(kLoopbackLatency, kLoopbackBytes, cluster.mutable_within_host());
  } else {
    SetLink(kShmLatency, kShmBytes, cluster.mutable_within_host());
  }
  SetLink(kEthernetLatency, kEthernetBytes, cluster.mutable_between_hosts());
  return cluster;
}

GroupSite SiteOnCluster(const Cluster& cluster, int ranks) {
  GroupSite site;
  site.backend = cluster.has_nccl() ? CollectiveBackend::kNccl : CollectiveBackend::kHierarchical;
  site.host_of.resize(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    site.host_of[rank] = cluster.ranks_per_host() == 0 ? 0 : rank / cluster.ranks_per_host();
  }
  return site;
}

}  // namespace tessera
