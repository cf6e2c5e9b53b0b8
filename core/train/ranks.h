// The ranks of a run, and how they come to decide the same.
//
// A decision that must be the same on all ranks is made by all of them from the same facts, or by
// rank 0 alone, which sends it to the others. A run of one process is a run of one rank, for which
// nothing here communicates.
#ifndef TESSERA_CORE_TRAIN_RANKS_H_
#define TESSERA_CORE_TRAIN_RANKS_H_

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

  // The functions below are collective. They wait for a rank for as long as it runs, however long
  // it plans, measures, loads or saves before it calls.

  // Returns when all ranks have called it.
  absl::Status Barrier();
  // Returns the text of each rank, in the order of ranks.
  absl::StatusOr<std::vector<std::string>> Gather(absl::string_view mine);
  // Returns rank 0's result on all ranks: only rank 0 calls `make`. Its error is an agreed one.
  absl::StatusOr<std::string> FromFirst(const std::function<absl::StatusOr<std::string>()>& make);
  // Returns OK if all ranks pass OK. Otherwise returns the same agreed error on all ranks: that of
  // the first rank that failed, which it names unless all ranks failed so.
  absl::Status Agree(const absl::Status& mine);

  // Collective; a rank that does not come within the time-out is an error, as in a step. Each of
  // `values` becomes the largest of all ranks.
  absl::Status Max(absl::Span<int64_t> values);

  // Returns the communicators for Programs on this mesh, which live as long as this.
  // InvalidArgument if the mesh has another number of ranks; null for a run of one rank.
  absl::StatusOr<Collectives*> CollectivesOn(const Mesh& mesh);

  // This rank cannot go on: every wait of the others ends with the reason. Call it before anything
  // that all ranks free together goes out of scope. Any thread may call it. For an agreed error all
  // ranks call it, and it returns when rank 0 has.
  void Abort(const absl::Status& why);

 private:
  comm::World* world_ = nullptr;
  std::unique_ptr<comm::Communicator> agreement_;  // waits without bound; null for one rank
  std::unique_ptr<comm::Communicator> steps_;      // waits up to the time-out; null for one rank
  std::vector<std::unique_ptr<MeshCollectives>> meshes_;
};

// Returns an error that all ranks have as an agreed one, which only one of them needs to report.
absl::Status Agreed(const absl::Status& error);

// Whether all ranks have this error, so that one of them is enough to report it.
bool IsAgreed(const absl::Status& error);

// Whether this rank learned of the error from another one, which reports it.
bool IsOfAnotherRank(const absl::Status& error);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_RANKS_H_
