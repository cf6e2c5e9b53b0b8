#include "core/cost/nccl_prices.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "core/tensor/collective.h"
#include "core/tensor/dtype.h"

namespace tessera {
namespace {

using Operation = CollectiveOperation;

enum Algorithm : size_t { kTree, kRing, kNvls };
enum Protocol : size_t { kLL, kLL128, kSimple };
enum Hardware : size_t { kNvlink, kPcie, kNetwork };

template <typename T>
using ByProtocol = std::array<T, 3>;

constexpr double kMicrosecond = 1e-6, kGigabyte = 1e9;

// Microseconds of a call, and of a step over each link; by algorithm and protocol.
constexpr ByProtocol<double> kBaseLatency[] = {{6.8, 14, 0}, {6.6, 14, 8.4}, {0, 0, 0}};
constexpr ByProtocol<double> kStepLatency[][3] = {
    {{0.6, 1.25, 28}, {0.6, 1.9, 3.4}, {0, 0, 23}},  // NVLink
    {{1.0, 1.9, 28}, {1.0, 2.5, 5.7}, {0, 0, 23}},   // PCIe
    {{5.0, 8.5, 28}, {2.7, 4.0, 14.0}, {0, 0, 14}},  // the network
};
// Between hosts a rank takes at least this long to post a message; three times for Simple.
constexpr double kPostLatency = 1.0;

// The most bandwidth of LL in GB/s: within a host of Volta or older and of later GPUs, on two
// hosts, and on more.
constexpr double kMaxLLVolta = 39.0, kMaxLL = 87.7, kMaxLLTwoHosts = 22.5, kMaxLLManyHosts = 19.0;

// The share of a tree's bandwidth that is reached for 64 B, 128 B, ... 256 MiB; all of it beyond.
constexpr ByProtocol<std::array<double, 23>> kTreeShare = {{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
}};

// Simple rings whose ranks send at least this much in a step and channel take longer to start.
constexpr double kPlateauBytes = 64, kChannels = 16;

double FloorLog2(double value) { return value < 1 ? 0 : std::floor(std::log2(value)); }

// The model for one call.
class Model {
 public:
  Model(const CollectiveCall& call, const NcclGroup& group, const Cluster& cluster)
      : group_(group),
        nccl_(cluster.nccl()),
        all_reduce_(call.operation == Operation::kAllReduce),
        bytes_(static_cast<double>(call.count) * static_cast<double>(SizeOf(call.dtype))),
        within_(cluster.has_within_host() ? cluster.within_host() : cluster.between_hosts()),
        between_(cluster.has_between_hosts() ? cluster.between_hosts() : cluster.within_host()) {
    const double network = group.least_of_host * between_.bytes_per_second();
    bus_ = group.hosts == 1             ? within_.bytes_per_second()
           : group.ranks == group.hosts ? network
                                        : std::min(network, within_.bytes_per_second());
  }

  double Seconds() const {
    double least = std::numeric_limits<double>::infinity();
    for (const Protocol protocol : {kLL, kLL128, kSimple}) {
      if (protocol == kLL128 && (nccl_.pcie_within_host() || nccl_.generation() == Nccl::PASCAL)) {
        continue;
      }
      least = std::min(least, RingSeconds(protocol));
      if (all_reduce_) least = std::min(least, TreeSeconds(protocol));
    }
    if (all_reduce_ && nccl_.nvls_bytes_per_second() > 0) least = std::min(least, NvlsSeconds());
    return least;
  }

  // The seconds of one message to each other rank, if all parts are equal.
  double AllToAllSeconds() const {
    const double on_host = static_cast<double>(group_.ranks) / group_.hosts;
    const double part = bytes_ / group_.ranks;
    double transfer = (on_host - 1) * part / within_.bytes_per_second();
    if (group_.hosts > 1) {
      transfer = std::max(transfer, (group_.ranks - on_host) * part / between_.bytes_per_second());
    }
    const double step =
        group_.hosts > 1 ? NetworkLatency(kRing, kSimple) : HostLatency(kRing, kSimple);
    return kBaseLatency[kRing][kSimple] * kMicrosecond + step + transfer;
  }

 private:
  double RingSeconds(Protocol protocol) const {
    const int steps = (all_reduce_ ? 2 : 1) * (group_.ranks - 1);
    int network_steps = 0;
    if (group_.hosts > 1) network_steps = all_reduce_ ? 2 * group_.hosts : group_.hosts - 1;
    double host_latency = HostLatency(kRing, protocol);
    if (group_.hosts > 1) {
      const double post = kPostLatency * (protocol == kSimple ? 3 : 1) * kMicrosecond;
      host_latency = std::max(host_latency, post);
    }
    double latency = kBaseLatency[kRing][protocol] * kMicrosecond +
                     std::max(0, steps - network_steps) * host_latency +
                     network_steps * NetworkLatency(kRing, protocol);
    if (all_reduce_ && protocol == kSimple && group_.hosts > 1 &&
        bytes_ >= kPlateauBytes * kChannels * group_.ranks) {
      latency *= is_older_than_ampere() ? 1.9 : 1.4;
    }
    double bus = bus_;
    if (protocol == kLL) bus = std::min(bus / (group_.hosts > 1 || all_reduce_ ? 4 : 3), max_ll());
    if (protocol == kLL128) bus *= group_.ranks < 2 * group_.hosts ? 0.7 : 0.92;
    return latency + bytes_ * steps / group_.ranks / bus;
  }

  double TreeSeconds(Protocol protocol) const {
    const int on_host = group_.ranks / group_.hosts;
    const double latency = kBaseLatency[kTree][protocol] * kMicrosecond +
                           2 * ((on_host - 1) * HostLatency(kTree, protocol) +
                                FloorLog2(group_.hosts) * NetworkLatency(kTree, protocol));
    // Over more than two hosts a channel of a tree reaches 17.8 (Ampere) or 36 GB/s (Hopper), and
    // one of a ring 24 and 48: three quarters.
    double bus = bus_ * (group_.hosts > 2 ? 0.75 : 0.92);
    if (protocol == kLL) bus = std::min(bus / 3.8, max_ll());
    if (protocol == kLL128) bus *= group_.hosts == 1 ? 7.0 / 9 : 120.0 / 128;
    const auto size = static_cast<size_t>(FloorLog2(bytes_ / 64));
    if (size < kTreeShare[protocol].size()) bus *= kTreeShare[protocol][size];
    return latency + 2 * bytes_ / bus;
  }

  double NvlsSeconds() const {
    // nccl-tests' busbw of an all-reduce is 2 (ranks - 1) / ranks times the rate of its bytes.
    const int on_host = group_.hosts == 1 ? group_.ranks : group_.least_of_host;
    if (on_host < 2) return std::numeric_limits<double>::infinity();
    double rate = nccl_.nvls_bytes_per_second() * on_host / (2 * (on_host - 1));
    double latency = HostLatency(kNvls, kSimple);
    if (group_.hosts > 1) {
      const double network = on_host * between_.bytes_per_second();
      rate = std::min(rate, (group_.hosts == 2 ? network : network / 2) * 5 / 6);
      latency += 2 * FloorLog2(group_.hosts) * NetworkLatency(kNvls, kSimple);
    }
    return latency + bytes_ / rate;
  }

  double HostLatency(Algorithm algorithm, Protocol protocol) const {
    const Hardware hardware = nccl_.pcie_within_host() ? kPcie : kNvlink;
    return std::max(kStepLatency[hardware][algorithm][protocol] * kMicrosecond,
                    within_.latency_seconds());
  }
  double NetworkLatency(Algorithm algorithm, Protocol protocol) const {
    return std::max(kStepLatency[kNetwork][algorithm][protocol] * kMicrosecond,
                    between_.latency_seconds());
  }

  bool is_older_than_ampere() const {
    return nccl_.generation() == Nccl::PASCAL || nccl_.generation() == Nccl::VOLTA;
  }
  double max_ll() const {
    const double most = group_.hosts > 2         ? kMaxLLManyHosts
                        : group_.hosts == 2      ? kMaxLLTwoHosts
                        : is_older_than_ampere() ? kMaxLLVolta
                                                 : kMaxLL;
    return most * kGigabyte;
  }

  const NcclGroup group_;
  const Nccl& nccl_;
  const bool all_reduce_;
  const double bytes_;
  const Link &within_, &between_;
  double bus_ = 0;  // the bandwidth of a ring
};

}  // namespace

double NcclSeconds(const CollectiveCall& call, const NcclGroup& group, const Cluster& cluster) {
  const Model model(call, group, cluster);
  return call.operation == Operation::kAllToAll ? model.AllToAllSeconds() : model.Seconds();
}

}  // namespace tessera
