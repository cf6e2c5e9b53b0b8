// The decisions about layouts that a Plan states, by subject.
#ifndef TESSERA_CORE_PLAN_LAYOUT_DECISIONS_H_
#define TESSERA_CORE_PLAN_LAYOUT_DECISIONS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/plan/axis_use.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// How a state or an input is stored.
struct StoredLayout {
  MeshLayout layout;      // B along `flat_axis`
  int flat_axis = kNone;  // over which the state is split as a member of a flat group
};

// When a group's members are gathered.
inline constexpr absl::string_view kGatherEachPhase = "each phase";
inline constexpr absl::string_view kGatherOnce = "once";

// When its gradients are reduced, if there are micro-batches.
inline constexpr absl::string_view kReduceOnce = "once";
inline constexpr absl::string_view kReduceEachMicroBatch = "each micro-batch";

struct StoreGroup {
  int axis = kNone;
  std::vector<std::string> members;  // parameters, in the order of the Graphs
  bool gather_once = false;          // for both phases; else for each
  bool reduce_each = false;          // after each micro-batch; else after the last
};

struct LayoutDecisions {
  // Layouts of every state and input of the Graphs. A parameter and its optimizer state agree,
  // unless the Plan stores the latter otherwise. Caches are listed only if the Plan names them.
  absl::flat_hash_map<std::string, StoredLayout> stored;
  // How a parameter's gradient arrives at its update, and how that is computed: as its optimizer
  // state is stored. By path of a parameter that is updated, or of its optimizer state.
  absl::flat_hash_map<std::string, StoredLayout> updated;
  std::vector<StoreGroup> groups;
  // The parameter that optimizer state belongs to, and has the type of, by path.
  absl::flat_hash_map<std::string, std::string> parameter_of;
  // For each Graph, the operators that the Plan names.
  std::vector<absl::flat_hash_map<OpId, AxisUses>> operators;
};

// Finds the subjects of the choices of a Plan's stage. InvalidArgument, in one line, names the
// choice and the fault: a malformed path or layout, an axis that the mesh lacks, a path that
// matches nothing, a subject that two choices name, a layout that does not fit the subject's shape
// or holds partial values, members of a group that differ in dtype or trainability.
//
// A Plan with parts (with fingerprints) for other Graphs was completed for them too, so its choices
// may match nothing.
absl::StatusOr<LayoutDecisions> FindDecisions(const Stage& stage, absl::Span<const Graph> graphs,
                                              const Mesh& mesh);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_LAYOUT_DECISIONS_H_
