// The flat groups of a run: the buffer and the position of each state that is stored flat, or
// updated so.
#ifndef TESSERA_CORE_PROGRAM_LOWER_FLAT_STORAGE_H_
#define TESSERA_CORE_PROGRAM_LOWER_FLAT_STORAGE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/layout/flat_group.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/plan/layouts/layout_decisions.h"

namespace tessera {

// The position of a state in a flat group: the index of the member and the number of the group's
// buffer. Buffer 0 holds the parameters; each other buffer holds one optimizer state of every
// parameter. If parameters are stored in full, buffer 0 holds what a rank updates of them, until it
// is gathered.
struct FlatPosition {
  int group = kNone;
  int member = 0;
  int buffer = 0;
};

// Thread safety: immutable after construction.
class FlatStorage {
 public:
  // Makes a storage without groups.
  FlatStorage() = default;
  // Makes the groups of `decisions`. A group whose axes have one rank in all is left out: its
  // members are stored separately. `graphs` are those of the run.
  static absl::StatusOr<FlatStorage> Create(const LayoutDecisions& decisions,
                                            absl::Span<const Graph> graphs, const Mesh& mesh);

  int num_groups() const { return static_cast<int>(groups_.size()); }
  const std::shared_ptr<const FlatGroup>& group(int i) const { return groups_[i].group; }
  // Returns the axes over which the group is split, the outermost split first, without axes of one
  // rank.
  absl::Span<const int> axes(int i) const { return groups_[i].axes; }
  // Returns the layout of a member of group i before the group is split.
  const MeshLayout& MemberLayout(int i, int member) const { return groups_[i].layouts[member]; }
  // Returns for how many of the axes, counted from the last one, the gathered result is kept for
  // the step. Over the other axes the group is gathered again in each phase.
  int gathers_kept(int i) const { return groups_[i].gathers_kept; }
  // Returns the path of a buffer of group i.
  const std::string& BufferPath(int i, int buffer) const { return groups_[i].buffers[buffer]; }
  // Returns nullptr if the state belongs to no group.
  const FlatPosition* Find(const std::string& state) const;

 private:
  struct Group {
    std::shared_ptr<const FlatGroup> group;
    std::vector<int> axes;
    std::vector<MeshLayout> layouts;  // by member
    int gathers_kept = 0;
    std::vector<std::string> buffers;
  };

  std::vector<Group> groups_;
  absl::flat_hash_map<std::string, FlatPosition> positions_;  // by path of a state
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_LOWER_FLAT_STORAGE_H_
