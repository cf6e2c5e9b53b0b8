// The interface by which an executor starts the collectives of its Program and waits for them.
#ifndef TESSERA_CORE_RUNTIME_COLLECTIVES_H_
#define TESSERA_CORE_RUNTIME_COLLECTIVES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/layout/flat_group.h"
#include "core/program/collective_request.h"

namespace tessera {

// A collective, send or receive that was started.
struct StartedCollective {
  int group = 0;
  int channel = 0;
  uint64_t number = 0;
};

// The calls and bytes of a rank in one operation along the same axes.
struct CollectiveCount {
  CollectiveOperation operation = CollectiveOperation::kAllReduce;
  std::vector<std::string> mesh_axes;
  int64_t calls = 0;
  int64_t bytes_sent = 0;  // by this rank, to others
};

// Not thread-safe: the thread of the executor uses it.
class Collectives {
 public:
  virtual ~Collectives() = default;

  // Returns the group of ranks of a mesh's axes, by a number of its own. All ranks call this in the
  // same order; the first call for some axes is collective. InvalidArgument if the mesh has no such
  // axis.
  virtual absl::StatusOr<int> GroupAlong(const std::vector<std::string>& mesh_axes) = 0;
  // The number of ranks of a group, and this rank's position in it.
  virtual int SizeOf(int group) const = 0;
  virtual int PositionIn(int group) const = 0;

  // Starts a request among the ranks of a group and returns at once. Until it has ended, its input
  // is not written and its output neither read nor written. Operations of one group run in the
  // order of their starts. Wait reports errors. `unread`: elements of the output of an all-gather,
  // in this rank's own part, that may be left as they are; ranks may differ in them.
  virtual StartedCollective Start(const CollectiveRequest& request, int group, const void* input,
                                  void* output, const FlatGroup::Range& unread) = 0;
  // Returns when it has ended on this rank: the output is there, and no rank touches the buffers
  // any more.
  virtual absl::Status Wait(const StartedCollective& started) = 0;

  // Returns what this rank has communicated so far; empty if that is not counted.
  virtual std::vector<CollectiveCount> Counts() const { return {}; }
};

}  // namespace tessera

#endif  // TESSERA_CORE_RUNTIME_COLLECTIVES_H_
