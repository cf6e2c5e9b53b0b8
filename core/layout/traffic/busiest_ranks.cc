#include "core/layout/traffic/busiest_ranks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>

#include "core/layout/traffic/hierarchical_traffic.h"
#include "core/layout/traffic/peer_traffic.h"

namespace tessera {
namespace {

using Operation = CollectiveOperation;

// Where the traffic of ranks changes: ranks send the same if there is no break between the indices
// of their hosts, nor between their indices within their hosts, and their hosts have equally many
// ranks.
struct Breaks {
  std::set<int64_t> hosts = {0};
  std::set<int64_t> locals = {0};
};

// Adds the first index with a shorter part, and the one after it, from which parts are empty.
void AddPartBreaks(int64_t count, int64_t part, std::set<int64_t>* breaks) {
  if (part == 0) return;
  breaks->insert({count / part, count / part + 1});
}

// Adds the breaks of an all-reduce in chunks: ranks of a host have parts of a chunk, and the ranks
// of a rail have parts of these.
void AddAllReduceBreaks(int64_t count, int64_t chunk_elements, const RankPlacement& placement,
                        Breaks* breaks) {
  ForEachSize(count, chunk_elements, [&](int64_t chunk, int64_t) {
    const int64_t part = AllReducePart(chunk, placement.rails);
    AddPartBreaks(chunk, part, &breaks->locals);
    ForEachSize(chunk, part, [&](int64_t own, int64_t) {
      AddPartBreaks(own, AllReducePart(own, placement.host_count()), &breaks->hosts);
    });
  });
}

// Adds the breaks of parts that belong to the ranks, in their order.
void AddRankBreaks(const CollectiveCall& call, const RankPlacement& placement, Breaks* breaks) {
  if (call.part == 0) return;
  const int64_t shorter = call.count / call.part;  // the first rank with a shorter part
  const auto locals = static_cast<int64_t>(placement.hosts[0].size());
  // The ranks of a rail have the parts of as many hosts as have full ones, or of one host more.
  for (int64_t host = 0; host < 3; ++host) breaks->hosts.insert(shorter / locals + host);
  for (int64_t local = 0; local < 2; ++local) breaks->locals.insert(shorter % locals + local);
}

// Adds the breaks of a broadcast of each rank's part. The part of a rank on the first rail is no
// shorter than those of the same host's other ranks, and that rank also sends for ranks that are on
// no rail. So it sends the most, unless the one shorter part, of another rank, is sent in another
// way. Each host may send another number of times.
void AddBroadcastBreaks(const CollectiveCall& call, const RankPlacement& placement,
                        Breaks* breaks) {
  for (int host = 0; host < placement.host_count(); ++host) breaks->hosts.insert(host);
  if (call.part == 0 || call.count / call.part >= placement.size()) return;
  breaks->locals.insert(placement.places[call.count / call.part].local);
}

void AddBreaks(const CollectiveCall& call, const RankPlacement& placement, Breaks* breaks) {
  const bool regular = placement.is_regular;
  switch (call.operation) {
    case Operation::kAllReduce:
      return AddAllReduceBreaks(call.count, ChunkElements(call), placement, breaks);
    case Operation::kReduceScatter:
      if (regular) return AddRankBreaks(call, placement, breaks);
      return ForEachSize(call.count, call.part, [&](int64_t part, int64_t) {
        AddAllReduceBreaks(part, std::min(ChunkElements(call), call.part), placement, breaks);
      });
    case Operation::kAllGather:
      return regular ? AddRankBreaks(call, placement, breaks)
                     : AddBroadcastBreaks(call, placement, breaks);
    default:
      return;  // in an all-to-all all ranks send the same
  }
}

}  // namespace

std::vector<int> BusiestPeers(int ranks) {
  if (ranks == 1) return {0};
  return {0, ranks - 1};
}

std::vector<int> BusiestRanks(absl::Span<const CollectiveCall> calls,
                              const RankPlacement& placement) {
  Breaks breaks;
  for (const CollectiveCall& call : calls) AddBreaks(call, placement, &breaks);
  std::vector<int> busiest;
  for (auto from = breaks.hosts.begin(); from != breaks.hosts.end(); ++from) {
    const auto next = std::next(from);
    const int64_t last = next == breaks.hosts.end() ? placement.host_count() : *next;
    const int64_t end = std::min<int64_t>(last, placement.host_count());
    std::set<size_t> sizes;  // of hosts since the break
    for (int64_t host = *from; host < end; ++host) {
      const std::vector<int>& ranks = placement.hosts[host];
      if (!sizes.insert(ranks.size()).second) continue;
      for (const int64_t local : breaks.locals) {
        if (local < static_cast<int64_t>(ranks.size())) busiest.push_back(ranks[local]);
      }
      if (placement.is_regular) break;
    }
  }
  return busiest;
}

}  // namespace tessera
