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

  // Returns the number of this rank's group along the given mesh axes, and makes the group at the
  // first call. All ranks must call this in the same order; the first call for a set of axes is
  // collective. Returns InvalidArgument if the mesh has no such axis.
  virtual absl::StatusOr<int> FindOrCreateGroup(const std::vector<std::string>& mesh_axes) = 0;
  // Return the number of ranks of a group, and this rank's position in it.
  virtual int SizeOf(int group) const = 0;
  virtual int PositionIn(int group) const = 0;

  // Starts a request among the ranks of a group and returns at once. Until it has ended, the caller
  // must not write its input, nor read or write its output. Operations of one group run in the
  // order of their starts. Errors are reported by Wait. `unread` is a range of the output of an
  // all-gather, in this rank's own part, that need not be written, because this rank does not read
  // it. Ranks may pass different ranges.
  virtual StartedCollective Start(const CollectiveRequest& request, int group, const void* input,
                                  void* output, const FlatGroup::Range& unread) = 0;
  // Returns when the operation has ended on this rank: the output is complete, and no rank accesses
  // this rank's buffers any more.
  virtual absl::Status Wait(const StartedCollective& started) = 0;
  // Returns whether Wait would return at once. Advances no operation.
  virtual bool HasEnded(const StartedCollective& started) const = 0;

  // Returns the calls and bytes of this rank so far; empty if they are not counted.
  virtual std::vector<CollectiveCount> Counts() const { return {}; }
};

}  // namespace tessera

#endif  // TESSERA_CORE_RUNTIME_COLLECTIVES_H_
