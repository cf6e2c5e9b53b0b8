// The calls, bytes and steps of a collective on a backend, by the formulas of docs/collectives.md.
// Planning uses them, and the backends' counters are tested against them.
#ifndef TESSERA_CORE_LAYOUT_TRAFFIC_COLLECTIVE_TRAFFIC_H_
#define TESSERA_CORE_LAYOUT_TRAFFIC_COLLECTIVE_TRAFFIC_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/layout/traffic/collective_call.h"

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
  int64_t bytes_network = 0;  // the share of bytes_sent that goes over TCP
  // The length of the longest chain of messages in which each one is sent after the one before it
  // was received. Chunks of one buffer that are in flight at the same time count once.
  int64_t steps = 0;

  friend bool operator==(const CollectiveTraffic& a, const CollectiveTraffic& b) {
    return a.calls == b.calls && a.bytes_sent == b.bytes_sent &&
           a.bytes_network == b.bytes_network && a.steps == b.steps;
  }
};

// Returns the traffic of one rank of a group for an all-reduce, a reduce-scatter, an all-gather or
// an all-to-all. Buffers must be in memory that peers can access (World::Allocate), as those of
// Programs are.
CollectiveTraffic TrafficOf(const CollectiveCall& call, const GroupSite& site, int rank);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_TRAFFIC_COLLECTIVE_TRAFFIC_H_
