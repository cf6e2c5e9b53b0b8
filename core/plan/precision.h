// Lower precision: operators compute on bf16 or f16 instead of f32. Parameters and optimizer state
// stay f32.
#ifndef TESSERA_CORE_PLAN_PRECISION_H_
#define TESSERA_CORE_PLAN_PRECISION_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "core/plan/path_pattern.h"
#include "core/proto/plan.pb.h"
#include "core/tensor/dtype.h"

namespace tessera {

// The dtypes that a stage of a Plan states.
struct Precision {
  DType parameters = DType::kF32;     // of parameters in use, and of values computed from them
  DType reduction = DType::kF32;      // of gradients of parameters during their reduction
  DType outputs = DType::kF32;        // of the Graphs' outputs that `parameters` would lower
  std::optional<PathPattern> in_f32;  // operators that compute in f32 nevertheless

  // Returns whether any dtype differs from those of the recorded Graphs.
  bool lowers() const { return IsHalf(parameters) || IsHalf(reduction); }
};

// Reads a stage's precision. InvalidArgument, in one line, names the field and its permitted
// values.
absl::StatusOr<Precision> ReadPrecision(const Stage& stage);

// Fills in the fields that the stage leaves open; ReadPrecision must have accepted the stage.
void CompletePrecision(Stage& stage);

// The loss scale: the factor by which the loss, and so every gradient, is multiplied. A training
// Graph must have this state to be rewritten to f16, in which its smallest gradients would become 0
// otherwise.
inline constexpr absl::string_view kLossScalePath = "optimizer.loss_scale";

// Returns the Graph with f32 values in fewer bits, as `precision` says.
//
// An operator of the forward or backward pass computes in the dtype `parameters` if any operand has
// that dtype. States, inputs and constants have no precision of their own: they are cast to the
// dtype of each reader (a constant is filled in it), and an operator that reads nothing else
// computes in `parameters`. These compute in f32:
// - statistics (Operator::IsStatistic) and whatever follows from them alone: the rows' losses,
//   their mean, and its gradient up to that of the logits;
// - operators that `in_f32` names, and their gradients;
// - operators that read optimizer state, such as the loss scale.
//
// States stay f32: the update reads and writes f32 master values. A parameter's gradient is made in
// the dtype of its operator and cast to `reduction`. In that dtype it is reduced over ranks and
// micro-batches and read by the update (or in f32, if an operator of the update takes nothing
// else). Caches are not master values and are kept in `parameters`.
//
// This rewriting comes after slices, so that each slice is cast separately; before layouts on a
// mesh, which then decide where a value is cast; and before recomputation and micro-batches, which
// repeat and split the casts too. It is the same for all Graphs of a run, because they share the
// caches.
//
// Paths: the cast of a value `p` has the path `p.bf16` (or `p.f16`, `p.f32`), and so has the op
// that casts it. All other paths stay.
//
// InvalidArgument if a Graph that trains is to compute in f16 and has no loss scale.
absl::StatusOr<Graph> RewritePrecision(const Graph& graph, const Precision& precision);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_PRECISION_H_
