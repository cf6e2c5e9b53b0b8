#include "core/layout/traffic/hierarchical_traffic.h"

#include <algorithm>

#include "core/layout/traffic/peer_traffic.h"
#include "core/status/check.h"

namespace tessera {
namespace {

using Operation = CollectiveOperation;

// Data of up to this size is sent together with the requests within a host.
constexpr int64_t kSmallBytes = 4096;
// Larger buffers are sent in chunks, so that one chunk can be on its way within the hosts while
// another is on its way between them.
constexpr int64_t kChunkBytes = int64_t{4} << 20;

// Between hosts, partial sums of bf16 and f16 are sent as f32.
DType PartialDType(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF16 ? DType::kF32 : dtype;
}

// Adds up the operations in which one rank takes part.
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
        small ? AddSmallAllReduce() : AddAllReduce(call_.count, ChunkElements());
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
  int64_t ChunkElements() const { return kChunkBytes / SizeOf(call_.dtype); }

  void AddWithinHost(int64_t elements) { traffic_.bytes_sent += elements * SizeOf(call_.dtype); }
  void AddWithinHost(Operation operation, int64_t count, int64_t part) {
    CollectiveCall call = call_;
    call.operation = operation;
    call.count = count;
    call.part = part;
    AddWithinHost(PeerElements(call, local_, locals_, kEagerBytes));
  }

  void AddOverNetwork(int64_t elements, DType dtype) {
    traffic_.bytes_sent += elements * SizeOf(dtype);
    traffic_.bytes_network += elements * SizeOf(dtype);
  }
  void AddOnRail(Operation operation, DType dtype, int64_t count, int64_t part) {
    CollectiveCall call = call_;
    call.operation = operation;
    call.dtype = dtype;
    call.count = count;
    call.part = part;
    AddOverNetwork(PeerElements(call, host_, hosts_, kEagerBytes), dtype);
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
    int64_t count = 0;  // of the rail's parts
    for (const std::vector<int>& host : placement_.hosts) {
      count += PartSize(call_.count, call_.part, host[local_]);
    }
    AddOnRail(Operation::kReduceScatter, PartialDType(call_.dtype), count, call_.part);
    traffic_.steps = 2;
  }

  void AddSmallAllGather() {
    AddWithinHost(PartSize(call_.count, call_.part, rank_) * (locals_ - 1));
    AddOnRail(Operation::kAllGather, call_.dtype, call_.count, call_.part * locals_);
    traffic_.steps = 2;
  }

  // Adds, for each chunk, a reduce-scatter within the host, an all-reduce on each rail, and an
  // all-gather within the host.
  void AddAllReduce(int64_t count, int64_t chunk_elements) {
    const bool rounded =
        call_.reduction == Reduction::kSum && PartialDType(call_.dtype) != call_.dtype;
    for (int64_t begin = 0; begin < count; begin += chunk_elements) {
      const int64_t chunk = std::min(chunk_elements, count - begin);
      const int64_t part = AllReducePart(chunk, placement_.rails);
      const int64_t own = PartSize(chunk, part, local_);
      AddWithinHost(Operation::kReduceScatter, chunk, part);
      AddWithinHost(Operation::kAllGather, chunk, part);
      if (own == 0) continue;
      if (rounded) {
        const int64_t rail_part = AllReducePart(own, hosts_);
        AddOnRail(Operation::kReduceScatter, DType::kF32, own, rail_part);
        AddOnRail(Operation::kAllGather, call_.dtype, own, rail_part);
      } else {
        AddOnRail(Operation::kAllReduce, call_.dtype, own, 0);
      }
    }
    traffic_.steps += 4;
  }

  void AddReduceScatter() {
    if (!placement_.is_regular) {  // each part is reduced on all ranks, and one of them keeps it
      for (int r = 0; r < placement_.size(); ++r) {
        AddAllReduce(PartSize(call_.count, call_.part, r), std::min(ChunkElements(), call_.part));
      }
      return;
    }
    const DType sums = call_.reduction == Reduction::kSum ? PartialDType(call_.dtype) : call_.dtype;
    const int64_t block = call_.part * locals_;
    int64_t count = 0;  // of the rail's parts
    for (int host = 0; host < hosts_; ++host) {
      const int64_t within = PartSize(call_.count, block, host);
      AddWithinHost(Operation::kReduceScatter, within, call_.part);
      count += PartSize(within, call_.part, local_);
    }
    AddOnRail(Operation::kReduceScatter, sums, count, call_.part);
    traffic_.steps = 2;
  }

  void AddAllGather() {
    if (!placement_.is_regular) {
      for (int r = 0; r < placement_.size(); ++r) {
        AddBroadcast(r, PartSize(call_.count, call_.part, r));
      }
      return;
    }
    const int64_t block = call_.part * locals_;
    AddOverNetwork(PartSize(call_.count, call_.part, rank_) * (hosts_ - 1), call_.dtype);
    for (int host = 0; host < hosts_; ++host) {
      AddWithinHost(Operation::kAllGather, PartSize(call_.count, block, host), call_.part);
    }
    traffic_.steps = 2;
  }

  // Adds one message for each pair of ranks on different hosts.
  void AddAllToAll() {
    const int ranks = placement_.size();
    if (placement_.is_regular) AddWithinHost(call_.part * (locals_ - 1));
    AddOverNetwork(call_.part * (placement_.is_regular ? ranks - locals_ : ranks - 1), call_.dtype);
    traffic_.steps = 1;
  }

  // Adds messages to the other hosts on the root's rail, and within each host from the rail's rank.
  // If the root is on no rail, it passes the data to the rank of its host on the first rail.
  void AddBroadcast(int root, int64_t count) {
    const RankPlacement::Place& from = placement_.places[root];
    const bool on_rail = from.local < placement_.rails;
    const int rail = on_rail ? from.local : 0;
    const bool root_host_off_rail = !on_rail && from.host == host_;
    for (int64_t begin = 0; begin < count; begin += ChunkElements()) {
      const int64_t chunk = std::min(ChunkElements(), count - begin);
      if (local_ == (root_host_off_rail ? from.local : rail)) AddWithinHost(chunk * (locals_ - 1));
      if (local_ == rail) AddOverNetwork(chunk * RailBroadcasts(chunk, from.host), call_.dtype);
    }
    traffic_.steps += 2;
  }

  // Returns how many times this rank sends a chunk on its rail. Small chunks are sent from the root
  // to all others, larger ones down a binomial tree.
  int64_t RailBroadcasts(int64_t elements, int root) const {
    const int own = (host_ - root + hosts_) % hosts_;
    if (elements * SizeOf(call_.dtype) <= kEagerBytes) return own == 0 ? hosts_ - 1 : 0;
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
