// Runs the collectives of a Program with the communicators of a World of ranks.
#ifndef TESSERA_CORE_RUNTIME_MESH_COLLECTIVES_H_
#define TESSERA_CORE_RUNTIME_MESH_COLLECTIVES_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "core/layout/mesh.h"
#include "core/runtime/collectives.h"

namespace tessera {

// Splits a communicator into one group for each requested set of axes. Not thread-safe.
class MeshCollectives : public Collectives {
 public:
  // `communicator` must have all ranks of the mesh and outlive this object. Returns InvalidArgument
  // if it has another number of ranks.
  static absl::StatusOr<std::unique_ptr<MeshCollectives>> Create(Mesh mesh,
                                                                 comm::Communicator* communicator);

  absl::StatusOr<int> FindOrCreateGroup(const std::vector<std::string>& mesh_axes) override;
  int SizeOf(int group) const override { return groups_[group].communicator->size(); }
  int PositionIn(int group) const override { return groups_[group].communicator->rank(); }
  StartedCollective Start(const CollectiveRequest& request, int group, const void* input,
                          void* output, const FlatGroup::Range& unread) override;
  absl::Status Wait(const StartedCollective& started) override;
  bool HasEnded(const StartedCollective& started) const override;
  std::vector<CollectiveCount> Counts() const override;

  // Aborts: the waits of all groups end with `why`, on the other ranks too.
  void Abort(const absl::Status& why);

  // Returns the sums of all groups' counters.
  comm::Traffic traffic() const;

 private:
  struct Group {
    std::vector<int> axes;  // of the mesh, ascending
    std::unique_ptr<comm::Communicator> communicator;
  };

  MeshCollectives(Mesh mesh, comm::Communicator* communicator)
      : mesh_(std::move(mesh)), all_(*communicator) {}

  const Mesh mesh_;
  comm::Communicator& all_;
  std::vector<Group> groups_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_RUNTIME_MESH_COLLECTIVES_H_
