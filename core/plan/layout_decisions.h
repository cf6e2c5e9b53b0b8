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
  MeshLayout layout;           // B along `flat_axes`
  std::vector<int> flat_axes;  // over which the state is split as a member of a flat group

  bool flat() const { return !flat_axes.empty(); }
};

// When a group's members are gathered.
inline constexpr absl::string_view kGatherEachPhase = "each phase";
inline constexpr absl::string_view kGatherOnce = "once";
inline constexpr absl::string_view kGatherEachPhaseOver = "each phase over ";

// When its gradients are reduced, if there are micro-batches.
inline constexpr absl::string_view kReduceOnce = "once";
inline constexpr absl::string_view kReduceEachMicroBatch = "each micro-batch";

// Where members may be cut: where a row, along the last dimension, ends.
inline constexpr absl::string_view kBlockRow = "row";
inline constexpr int64_t kRow = 0;

struct StoreGroup {
  std::vector<int> axes;             // the outermost split of the array first
  std::vector<std::string> members;  // parameters, in the order of the Graphs
  // The array is gathered over the innermost splits first. What has been gathered over the last
  // `gathers_kept` of the axes is kept for both phases; the others are gathered for each.
  int gathers_kept = 0;
  bool reduce_each = false;  // after each micro-batch; else after the last
  int64_t block = 1;         // a member is cut at multiples of so many elements; kRow: of its row
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
