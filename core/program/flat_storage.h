// The flat groups of a run: which states lie in which buffer, and where.
#ifndef TESSERA_CORE_PROGRAM_FLAT_STORAGE_H_
#define TESSERA_CORE_PROGRAM_FLAT_STORAGE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/layout/flat_group.h"
#include "core/layout/mesh.h"
#include "core/plan/layout_decisions.h"

namespace tessera {

// The position of a state: `member` of a group, in the group's buffer of this number. Buffer 0 has
// the parameters, each further one has one optimizer state of every parameter.
struct FlatPosition {
  int group = kNone;
  int member = 0;
  int buffer = 0;
};

// Thread safety: immutable after construction.
class FlatStorage {
 public:
  // Without groups.
  FlatStorage() = default;
  // The groups of `decisions`. One over axes of one rank is none: its members are stored as they
  // are. `graphs` are those of the run.
  static absl::StatusOr<FlatStorage> Create(const LayoutDecisions& decisions,
                                            absl::Span<const Graph> graphs, const Mesh& mesh);

  int num_groups() const { return static_cast<int>(groups_.size()); }
  const std::shared_ptr<const FlatGroup>& group(int i) const { return groups_[i].group; }
  // Those over which the group is split, the outermost split first. None has one rank.
  absl::Span<const int> axes(int i) const { return groups_[i].axes; }
  // The result of gathering over so many of the axes, the last ones, is kept for the step; the
  // group is gathered over the others in each phase.
  int gathers_kept(int i) const { return groups_[i].gathers_kept; }
  // The path of a buffer of group i.
  const std::string& BufferPath(int i, int buffer) const { return groups_[i].buffers[buffer]; }
  // nullptr if the state is stored in no group.
  const FlatPosition* Find(const std::string& state) const;

 private:
  struct Group {
    std::shared_ptr<const FlatGroup> group;
    std::vector<int> axes;
    int gathers_kept = 0;
    std::vector<std::string> buffers;
  };

  std::vector<Group> groups_;
  absl::flat_hash_map<std::string, FlatPosition> positions_;  // by path of a state
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_FLAT_STORAGE_H_
