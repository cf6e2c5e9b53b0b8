// The calls, bytes and steps of a collective on a backend, by the formulas of docs/collectives.md.
// Planning uses them, and the backends' counters are tested against them.
#ifndef TESSERA_CORE_LAYOUT_COLLECTIVE_TRAFFIC_H_
#define TESSERA_CORE_LAYOUT_COLLECTIVE_TRAFFIC_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/layout/collective_call.h"

namespace tessera {

enum class CollectiveBackend : uint8_t { kShm, kTcp, kHierarchical, kNccl };

// "shm", "tcp", "hierarchical", "nccl"; InvalidArgument names the right ones.
absl::StatusOr<CollectiveBackend> ParseCollectiveBackend(absl::string_view name);

// The ranks of a group, in their order, and what they communicate over.
struct GroupSite {
  CollectiveBackend backend = CollectiveBackend::kShm;
  // The number of each rank's host. Hierarchical groups depend on it: one on one host is an shm
  // group, one with a host for each rank a tcp group.
  std::vector<int> host_of;

  int size() const { return static_cast<int>(host_of.size()); }
};

struct CollectiveTraffic {
  int64_t calls = 1;
  int64_t bytes_sent = 0;     // by one rank, to others
  int64_t bytes_network = 0;  // the share of them that goes over TCP
  // The longest chain of messages, each of which is sent when the one before it has come. Chunks
  // of one buffer that are under way at the same time count once.
  int64_t steps = 0;

  friend bool operator==(const CollectiveTraffic& a, const CollectiveTraffic& b) {
    return a.calls == b.calls && a.bytes_sent == b.bytes_sent &&
           a.bytes_network == b.bytes_network && a.steps == b.steps;
  }
};

// The traffic of an all-reduce, a reduce-scatter, an all-gather or an all-to-all for one rank of a
// group. Buffers are in memory that peers reach (World::Allocate), as those of Programs are.
CollectiveTraffic TrafficOf(const CollectiveCall& call, const GroupSite& site, int rank);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_COLLECTIVE_TRAFFIC_H_
