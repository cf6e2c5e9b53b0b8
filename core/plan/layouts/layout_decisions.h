// The decisions of a Plan about layouts, by subject.
#ifndef TESSERA_CORE_PLAN_LAYOUTS_LAYOUT_DECISIONS_H_
#define TESSERA_CORE_PLAN_LAYOUTS_LAYOUT_DECISIONS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/plan/layouts/axis_use.h"
#include "core/plan/layouts/decision_subjects.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// The stored layout of a state or an input.
struct StoredLayout {
  MeshLayout layout;           // B along `flat_axes`
  std::vector<int> flat_axes;  // axes that split the state as a member of a flat group

  bool flat() const { return !flat_axes.empty(); }
};

// A member may be split between ranks at the end of a row, along the last dimension.
inline constexpr int64_t kRow = 0;

struct StoreGroup {
  std::vector<int> axes;             // the outermost split of the array first
  std::vector<std::string> members;  // parameters, in the order of the Graphs
  // The array is gathered over the innermost splits first. The result of gathering over the last
  // `gathers_kept` axes is kept for both phases; over the other axes it is gathered in each phase.
  int gathers_kept = 0;
  // Parameters are stored in full, and gathered after their update; only optimizer state is split.
  bool gathers_after_update = false;
  bool reduce_each = false;  // reduce after each micro-batch, otherwise after the last
  int64_t block = 1;         // members are split at multiples of this; kRow: of a row
};

struct LayoutDecisions {
  // Layouts of every state and input of the Graphs. Optimizer state has the layout of its
  // parameter, unless the Plan stores it otherwise. Caches are listed only if the Plan names them.
  absl::flat_hash_map<std::string, StoredLayout> stored;
  // The layout in which a parameter's gradient arrives at its update and in which the update is
  // computed: that in which the optimizer state is stored. It is flat for all members of groups,
  // also if their parameters are stored in full. Keys are the paths of updated parameters
  // and of their optimizer state.
  absl::flat_hash_map<std::string, StoredLayout> updated;
  std::vector<StoreGroup> groups;
  // Never null in the result of FindDecisions.
  std::shared_ptr<const DecisionSubjects> subjects;
  // For each Graph, the operators that the Plan names.
  std::vector<absl::flat_hash_map<OpId, AxisUses>> operators;
};

// Finds the subjects of the choices of a Plan's stage. InvalidArgument, in one line, names the
// choice and the fault: a malformed path or layout, an axis that the mesh lacks, a path that
// matches nothing, a subject that two choices name, a layout that does not fit the subject's shape
// or holds partial values, members of a group that differ in dtype or trainability.
//
// If the Plan has parts (with fingerprints) for other Graphs, it was completed for them as well, so
// its choices may match nothing here.
//
// `subjects` are those of the Graphs; if they are null, they are made.
absl::StatusOr<LayoutDecisions> FindDecisions(
    const Stage& stage, absl::Span<const Graph> graphs, const Mesh& mesh,
    std::shared_ptr<const DecisionSubjects> subjects = nullptr);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_LAYOUTS_LAYOUT_DECISIONS_H_
