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

// The dtypes that a stage states.
struct Precision {
  DType parameters = DType::kF32;     // in which parameters are used, and what follows from them
  DType reduction = DType::kF32;      // in which gradients of parameters are reduced
  DType outputs = DType::kF32;        // of the Graphs' outputs that would be in `parameters`
  std::optional<PathPattern> in_f32;  // operators that compute in f32 all the same

  // Whether anything differs from how Graphs are recorded.
  bool lowers() const { return IsHalf(parameters) || IsHalf(reduction); }
};

// Reads a stage's precision. InvalidArgument, in one line, names the field, and what it may be.
absl::StatusOr<Precision> ReadPrecision(const Stage& stage);

// Writes out what the stage leaves open; ReadPrecision accepts the stage.
void CompletePrecision(Stage& stage);

// The state that a training Graph must have to be rewritten to f16, of whose gradients the smallest
// would become 0: the factor by which the loss, and so every gradient, is multiplied.
inline constexpr absl::string_view kLossScalePath = "optimizer.loss_scale";

// Returns the Graph with values of f32 in fewer bits, as `precision` says.
//
// An operator of the forward or backward pass computes in `parameters` if an operand does. States
// that the Graph reads, its inputs and its constants are made what their readers want: they are
// cast (constants, filled) where they are read, and lower the precision of an operator that reads
// nothing else. Statistics (Operator::IsStatistic) are f32, and so is what follows from them alone:
// the rows' losses, their mean, and its gradient down to the logits'. An operator named by `in_f32`
// reads and makes f32 between lower neighbours, and so does its gradient; and so does an operator
// that reads optimizer state, such as the loss scale.
//
// States are f32 as before: the update reads and writes masters. A parameter's gradient is made in
// the dtype of its operator and cast to `reduction`, in which it is reduced, over ranks and
// micro-batches, and read by the update (in f32, if an operator of the update takes no other).
// Caches, which are no masters, are kept in `parameters`.
//
// This comes after slices, so that a slice is cast by itself; before layouts on a mesh, which then
// say where a value is cast; and before recomputation and micro-batches, which repeat and split
// what is there. It is the same for all Graphs of a run, because the caches' types are.
//
// Paths: a value `p` in other bits than the Graph's has the path `p.bf16` (`p.f32`), as has the op
// that casts it; all else keeps its own.
//
// InvalidArgument if a Graph that trains is to compute in f16 and has no loss scale.
absl::StatusOr<Graph> RewritePrecision(const Graph& graph, const Precision& precision);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_PRECISION_H_
