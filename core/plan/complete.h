// Completes a Plan for a mesh of ranks: a Plan may be open, a completed one lists every path.
#ifndef TESSERA_CORE_PLAN_COMPLETE_H_
#define TESSERA_CORE_PLAN_COMPLETE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/fingerprints.h"
#include "core/graph/graph.h"
#include "core/layout/mesh.h"
#include "core/plan/layouts/decision_subjects.h"
#include "core/plan/layouts/graph_layouts.h"
#include "core/plan/layouts/layout_decisions.h"
#include "core/plan/rewrite/slice_layouts.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// The decisions of a Plan about the Graphs of a run, with those completed that it leaves open.
struct DecidedRun {
  SliceDecisions slices;
  std::vector<Graph> rewritten;  // empty if the Plan has no slices and no lower precision
  // As recorded, with slices, in the Plan's precision: `rewritten`, or the recorded Graphs.
  absl::Span<const Graph> graphs;
  Mesh mesh;                  // of the ranks; without axes if the Plan has no mesh
  LayoutDecisions decisions;  // of the Plan, about `graphs`

  DecidedRun() = default;
  DecidedRun(DecidedRun&&) = default;  // `graphs` stays valid, which a copy's would not be
  DecidedRun& operator=(DecidedRun&&) = default;
};

struct CompletedRun {
  DecidedRun run;
  std::vector<GraphLayouts> layouts;  // by Graph; the rules are in graph_layouts.h
};

// Returns the mesh of a Plan for a job of `ranks` ranks. InvalidArgument if they do not fit.
absl::StatusOr<Mesh> MeshOfPlan(const Plan& plan, int ranks);

// Finds the decisions of `plan`. `graphs` are the recorded Graphs of the run, before any rewriting;
// they must outlive the result.
//
// InvalidArgument, in one line, says what in the Plan does not fit the Graphs or the `ranks` of the
// job, and what would fit.
//
// `recorded` are the subjects of the Graphs; if they are null, they are made.
absl::StatusOr<DecidedRun> DecideRun(const Plan& plan, absl::Span<const Graph> graphs, int ranks,
                                     std::shared_ptr<const DecisionSubjects> recorded = nullptr);

// Calls DecideRun, and chooses the layouts of all Graphs.
absl::StatusOr<CompletedRun> CompleteRun(const Plan& plan, absl::Span<const Graph> graphs,
                                         int ranks);

// Returns the Plan with the sizes of all mesh axes, the sliced parameters, all dtypes, the layout
// of each state and input, the members of each flat group, and the signature of each op of each
// Graph (after slicing and in the Plan's precision). The result is a function of the arguments, and
// completing it again changes nothing. The batch, micro-batches, recomputation, logits, passes and
// kernels are not changed. In a Plan without a mesh only slices and precision are completed.
//
// `graphs` are the recorded ones, and `run` is the result of CompleteRun for them.
absl::StatusOr<Plan> ListDecisions(const Plan& plan, const Fingerprints& graphs,
                                   const CompletedRun& run);

// Calls CompleteRun, and returns the result of ListDecisions.
absl::StatusOr<Plan> CompletePlan(const Plan& plan, absl::Span<const Graph> graphs, int ranks);

// Returns a note that names the parts for Graphs that the run does not have; "" if there are none.
// A part with a fingerprint is of a completed Plan, which may be replayed for some of its Graphs.
std::string NoteOfUnusedParts(const Plan& plan, absl::Span<const Graph> graphs);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_COMPLETE_H_
