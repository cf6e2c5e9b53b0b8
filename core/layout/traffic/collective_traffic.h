// The calls, bytes and steps of a collective on a backend, by the formulas of docs/collectives.md.
// Planning uses them, and the backends' counters are tested against them.
#ifndef TESSERA_CORE_LAYOUT_TRAFFIC_COLLECTIVE_TRAFFIC_H_
#define TESSERA_CORE_LAYOUT_TRAFFIC_COLLECTIVE_TRAFFIC_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/layout/traffic/collective_call.h"
#include "core/tensor/rank_placement.h"

namespace tessera {

enum class CollectiveBackend : uint8_t { kShm, kTcp, kHierarchical, kNccl };

// Parses "shm", "tcp", "hierarchical" or "nccl"; InvalidArgument lists these names.
absl::StatusOr<CollectiveBackend> ParseCollectiveBackend(absl::string_view name);

// The ranks of a group, in their order, with their hosts and the backend that connects them.
struct GroupSite {
  CollectiveBackend backend = CollectiveBackend::kShm;
  // By rank: the number of its host. It matters for hierarchical groups: if all ranks are on one
  // host, the group works as an shm group; if each rank has its own host, as a tcp group.
  std::vector<int> host_of;

  int size() const { return static_cast<int>(host_of.size()); }
};

struct CollectiveTraffic {
  int64_t calls = 1;
  int64_t bytes_sent = 0;     // by this rank, to other ranks
  int64_t bytes_network = 0;  // the share of bytes_sent that goes to other hosts, or over TCP
  // The length of the longest chain of messages in which each one is sent after the one before it
  // was received. Chunks of one buffer that are in flight at the same time count once.
  int64_t steps = 0;

  friend bool operator==(const CollectiveTraffic& a, const CollectiveTraffic& b) {
    return a.calls == b.calls && a.bytes_sent == b.bytes_sent &&
           a.bytes_network == b.bytes_network && a.steps == b.steps;
  }
};

// The traffic of a group's collectives: of an all-reduce, a reduce-scatter, an all-gather or an
// all-to-all. Buffers must be in memory that peers can access (World::Allocate), as those of
// Programs are.
//
// Thread safety: immutable after construction.
class GroupTraffic {
 public:
  // Finds the placement of the ranks, once for all collectives.
  explicit GroupTraffic(GroupSite site);

  const GroupSite& site() const { return site_; }
  int ranks() const { return site_.size(); }
  int hosts() const { return placement_.host_count(); }
  // Returns the number of ranks on the host that has the fewest of them.
  int LeastRanksOfHost() const;

  // Returns the traffic of one rank.
  CollectiveTraffic Of(const CollectiveCall& call, int rank) const;
  // Returns ranks of which one sends the most in all of these calls together, which are of one
  // operation. Except over NCCL, that is so whatever a byte within a host and one over the network
  // cost (core/layout/traffic/busiest_ranks.h).
  std::vector<int> BusiestRanks(absl::Span<const CollectiveCall> calls) const;

 private:
  bool is_hierarchical() const {
    return site_.backend == CollectiveBackend::kHierarchical && hosts() != 1 && hosts() != ranks();
  }

  GroupSite site_;
  RankPlacement placement_;
};

// Returns the traffic of one rank, for a single call.
CollectiveTraffic TrafficOf(const CollectiveCall& call, const GroupSite& site, int rank);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_TRAFFIC_COLLECTIVE_TRAFFIC_H_
