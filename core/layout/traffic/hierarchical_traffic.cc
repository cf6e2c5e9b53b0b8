#include "core/layout/traffic/hierarchical_traffic.h"

#include <algorithm>

#include "core/layout/traffic/peer_traffic.h"
#include "core/status/check.h"

namespace tessera {
namespace {

using Operation = CollectiveOperation;

// Data of up to this size is sent together with the requests within a host.
constexpr int64_t kSmallBytes = 4096;
// Between hosts, partial sums of bf16 and f16 are sent as f32.
DType PartialDType(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF16 ? DType::kF32 : dtype;
}

// Adds up the operations in which one rank takes part. Operations of the same size are counted
// together, so that the time does not grow with the size of a buffer, nor with the number of ranks
// if the placement is regular.
class TrafficSum {
 public:
  TrafficSum(const CollectiveCall& call, const RankPlacement& placement, int rank)
      : call_(call),
        placement_(placement),
        rank_(rank),
        host_(placement.places[rank].host),
        local_(placement.places[rank].local),
        locals_(static_cast<int>(placement.hosts[host_].size())),
        hosts_(placement.host_count()) {}

  CollectiveTraffic Run() && {
    const bool small = placement_.is_regular && call_.operation != Operation::kAllToAll &&
                       call_.count * SizeOf(call_.dtype) <= kSmallBytes;
    switch (call_.operation) {
      case Operation::kAllReduce:
        small ? AddSmallAllReduce() : AddAllReduce(call_.count, ChunkElements(call_), 1);
        break;
      case Operation::kReduceScatter:
        small ? AddSmallReduceScatter() : AddReduceScatter();
        break;
      case Operation::kAllGather:
        small ? AddSmallAllGather() : AddAllGather();
        break;
      case Operation::kAllToAll:
        AddAllToAll();
        break;
      default:
        TESSERA_CHECK(false) << CollectiveOperationName(call_.operation) << " has no formula here";
    }
    return traffic_;
  }

 private:
  void AddWithinHost(int64_t elements) { traffic_.bytes_sent += elements * SizeOf(call_.dtype); }
  void AddWithinHost(Operation operation, int64_t count, int64_t part, int64_t times) {
    CollectiveCall call = call_;
    call.operation = operation;
    call.count = count;
    call.part = part;
    AddWithinHost(times * PeerElements(call, local_, locals_, kEagerBytes));
  }

  void AddOverNetwork(int64_t elements, DType dtype) {
    traffic_.bytes_sent += elements * SizeOf(dtype);
    traffic_.bytes_network += elements * SizeOf(dtype);
  }
  void AddOnRail(Operation operation, DType dtype, int64_t count, int64_t part, int64_t times = 1) {
    CollectiveCall call = call_;
    call.operation = operation;
    call.dtype = dtype;
    call.count = count;
    call.part = part;
    AddOverNetwork(times * PeerElements(call, host_, hosts_, kEagerBytes), dtype);
    rail_steps_ = PeerSteps(call);
  }

  // Adds requests with their data within the host, then one operation on each rail.
  void AddSmallAllReduce() {
    AddWithinHost(call_.count * (locals_ - 1));
    AddOnRail(Operation::kAllReduce, PartialDType(call_.dtype), call_.count, 0);
    traffic_.steps = 1 + rail_steps_;
  }

  void AddSmallReduceScatter() {
    AddWithinHost(call_.count * (locals_ - 1));
    AddOnRail(Operation::kReduceScatter, PartialDType(call_.dtype), RailCount(), call_.part);
    traffic_.steps = 2;
  }

  void AddSmallAllGather() {
    AddWithinHost(PartSize(call_.count, call_.part, rank_) * (locals_ - 1));
    AddOnRail(Operation::kAllGather, call_.dtype, call_.count, call_.part * locals_);
    traffic_.steps = 2;
  }

  // Returns the elements of the parts of this rank's rail, if the placement is regular.
  int64_t RailCount() const {
    int64_t count = 0;
    ForEachSize(call_.count, call_.part * locals_, [&](int64_t within, int64_t hosts) {
      count += hosts * PartSize(within, call_.part, local_);
    });
    return count;
  }

  // Adds, for each chunk of each of `times` buffers, a reduce-scatter within the host, an
  // all-reduce on each rail, and an all-gather within the host.
  void AddAllReduce(int64_t count, int64_t chunk_elements, int64_t times) {
    const bool rounded =
        call_.reduction == Reduction::kSum && PartialDType(call_.dtype) != call_.dtype;
    ForEachSize(count, chunk_elements, [&](int64_t chunk, int64_t chunks) {
      const int64_t all = times * chunks;
      const int64_t part = AllReducePart(chunk, placement_.rails);
      const int64_t own = PartSize(chunk, part, local_);
      AddWithinHost(Operation::kReduceScatter, chunk, part, all);
      AddWithinHost(Operation::kAllGather, chunk, part, all);
      if (own == 0) return;
      if (rounded) {
        const int64_t rail_part = AllReducePart(own, hosts_);
        AddOnRail(Operation::kReduceScatter, DType::kF32, own, rail_part, all);
        AddOnRail(Operation::kAllGather, call_.dtype, own, rail_part, all);
      } else {
        AddOnRail(Operation::kAllReduce, call_.dtype, own, 0, all);
      }
    });
    traffic_.steps = 4;
  }

  void AddReduceScatter() {
    if (!placement_.is_regular) {  // each part is reduced on all ranks, and one of them keeps it
      const int64_t chunk = std::min(ChunkElements(call_), call_.part);
      ForEachSize(call_.count, call_.part,
                  [&](int64_t part, int64_t ranks) { AddAllReduce(part, chunk, ranks); });
      traffic_.steps = int64_t{4} * placement_.size();
      return;
    }
    ForEachSize(call_.count, call_.part * locals_, [&](int64_t within, int64_t hosts) {
      AddWithinHost(Operation::kReduceScatter, within, call_.part, hosts);
    });
    const DType sums = call_.reduction == Reduction::kSum ? PartialDType(call_.dtype) : call_.dtype;
    AddOnRail(Operation::kReduceScatter, sums, RailCount(), call_.part);
    traffic_.steps = 2;
  }

  void AddAllGather() {
    if (!placement_.is_regular) return AddBroadcasts();
    AddOverNetwork(PartSize(call_.count, call_.part, rank_) * (hosts_ - 1), call_.dtype);
    ForEachSize(call_.count, call_.part * locals_, [&](int64_t within, int64_t hosts) {
      AddWithinHost(Operation::kAllGather, within, call_.part, hosts);
    });
    traffic_.steps = 2;
  }

  // Adds one message for each pair of ranks on different hosts.
  void AddAllToAll() {
    const int ranks = placement_.size();
    if (placement_.is_regular) AddWithinHost(call_.part * (locals_ - 1));
    AddOverNetwork(call_.part * (placement_.is_regular ? ranks - locals_ : ranks - 1), call_.dtype);
    traffic_.steps = 1;
  }

  // Adds a broadcast of each rank's part. The parts before that of rank `shorter` are full, and
  // those after it are empty.
  void AddBroadcasts() {
    traffic_.steps = int64_t{2} * placement_.size();
    if (call_.part == 0) return;
    const int64_t shorter = call_.count / call_.part;
    AddBroadcasts(0, shorter, call_.part);
    if (call_.count % call_.part > 0) {
      AddBroadcasts(shorter, shorter + 1, call_.count % call_.part);
    }
  }

  // Adds broadcasts from the ranks in [begin, end): messages to the other hosts on the root's rail,
  // and within each host from the rail's rank. A root that is on no rail passes its part to the
  // other ranks of its host, and the rank on the first rail sends it to the other hosts.
  void AddBroadcasts(int64_t begin, int64_t end, int64_t count) {
    const int rails = placement_.rails;
    // The roots on this rank's rail, and those on no rail for which it sends.
    const auto on_rail = [&](int host) -> int64_t {
      if (local_ >= rails) return 0;
      const int root = placement_.hosts[host][local_];
      return begin <= root && root < end ? 1 : 0;
    };
    const auto off_rails = [&](int host) -> int64_t {
      if (local_ != 0) return 0;
      const std::vector<int>& ranks = placement_.hosts[host];
      const auto first = ranks.begin() + rails;
      if (begin == 0 && ranks.back() < end) return ranks.end() - first;
      return std::lower_bound(first, ranks.end(), end) -
             std::lower_bound(first, ranks.end(), begin);
    };
    // In a broadcast from each host, a rank sends once for each other host.
    const int64_t usual = on_rail(0) + off_rails(0);
    int64_t within = -off_rails(host_), tree = usual * (hosts_ - 1);
    for (int host = 0; host < hosts_; ++host) {
      const int64_t roots = on_rail(host) + off_rails(host);
      within += roots;
      if (roots != usual) tree += (roots - usual) * TreeChildren(host);
    }
    if (local_ >= rails && begin <= rank_ && rank_ < end) ++within;
    const int64_t eager = (on_rail(host_) + off_rails(host_)) * (hosts_ - 1);
    ForEachSize(count, ChunkElements(call_), [&](int64_t chunk, int64_t chunks) {
      const bool is_small = chunk * SizeOf(call_.dtype) <= kEagerBytes;
      AddWithinHost(chunks * chunk * within * (locals_ - 1));
      AddOverNetwork(chunks * chunk * (is_small ? eager : tree), call_.dtype);
    });
  }

  // Returns to how many hosts this rank sends on its rail in a broadcast from `root`, which is down
  // a binomial tree. Small chunks are sent from the root to all others.
  int64_t TreeChildren(int root) const {
    const int own = (host_ - root + hosts_) % hosts_;
    int64_t children = 0;
    for (int bit = 1; own + bit < hosts_ && (own & bit) == 0; bit *= 2) ++children;
    return children;
  }

  const CollectiveCall& call_;
  const RankPlacement& placement_;
  const int rank_, host_, local_;
  const int locals_, hosts_;  // ranks of this host, and of a rail
  int64_t rail_steps_ = 0;
  CollectiveTraffic traffic_;
};

}  // namespace

CollectiveTraffic HierarchicalTraffic(const CollectiveCall& call, const RankPlacement& placement,
                                      int rank) {
  return TrafficSum(call, placement, rank).Run();
}

}  // namespace tessera
