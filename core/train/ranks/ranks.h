// The ranks of a run, and the operations by which they agree on decisions.
//
// Some decisions must be the same on all ranks. Either all ranks make them from the same facts, or
// rank 0 makes them and sends them to the others. A run of one process has one rank, and then
// nothing here communicates.
#ifndef TESSERA_CORE_TRAIN_RANKS_RANKS_H_
#define TESSERA_CORE_TRAIN_RANKS_RANKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/world.h"
#include "core/layout/mesh.h"
#include "core/runtime/collectives.h"
#include "core/runtime/mesh_collectives.h"

namespace tessera {

// Thread safety: one thread at a time, apart from Abort.
class Ranks {
 public:
  // A run of one rank.
  Ranks() = default;
  // Collective over the ranks of `world`, which must outlive the result.
  static absl::StatusOr<std::unique_ptr<Ranks>> Create(comm::World* world);

  int rank() const { return world_ == nullptr ? 0 : world_->rank(); }
  int size() const { return world_ == nullptr ? 1 : world_->size(); }
  bool is_first() const { return rank() == 0; }
  // Null for a run of one rank.
  comm::World* world() const { return world_; }

  // The functions below are collective. They have no time-out: they wait for as long as the other
  // ranks run, because a rank may plan, measure, load or save for a long time before it calls.

  // Returns when all ranks have called it.
  absl::Status Barrier();
  // Returns the text of each rank, in the order of ranks.
  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view mine);
  // Returns rank 0's result on all ranks: only rank 0 calls `make`. Its error is an agreed one.
  absl::StatusOr<std::string> BroadcastFromFirst(
      const std::function<absl::StatusOr<std::string>()>& make);
  // Returns OK if all ranks pass OK. Otherwise returns the same agreed error on all ranks: that of
  // the lowest rank that failed. It names the ranks with this error, unless all ranks have it.
  absl::Status Agree(const absl::Status& mine);

  // Replaces each of `values` by its maximum over all ranks. Collective, with the time-out of a
  // step: it is an error if a rank does not call it in time.
  absl::Status Max(absl::Span<int64_t> values);

  // Returns the communicators for Programs on this mesh. They are owned by this object.
  // Returns InvalidArgument if the mesh has another number of ranks, and null for a run of one
  // rank.
  absl::StatusOr<Collectives*> CollectivesOn(const Mesh& mesh);

  // Reports that this rank cannot continue: every wait of the other ranks ends with `why`. Call it
  // before any object whose destruction is collective goes out of scope. Any thread may call it. If
  // `why` is an agreed error, all ranks call it, and it returns after rank 0 has called it.
  void Abort(const absl::Status& why);

 private:
  // Returns when rank 0 has called Abort. For the other ranks.
  void WaitForAbortOfFirst();

  comm::World* world_ = nullptr;
  std::unique_ptr<comm::Communicator> agreement_;  // waits without bound; null for one rank
  std::unique_ptr<comm::Communicator> steps_;      // waits up to the time-out; null for one rank
  std::vector<std::unique_ptr<MeshCollectives>> meshes_;
};

// Returns `error`, which all ranks have, marked as agreed, so that only one of them needs to report
// it.
absl::Status AgreedError(const absl::Status& error);

// Returns whether all ranks have this error, so that only one of them needs to report it.
bool IsAgreed(const absl::Status& error);

// Returns whether the error came from another rank, which reports it.
bool IsOfAnotherRank(const absl::Status& error);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_RANKS_RANKS_H_
