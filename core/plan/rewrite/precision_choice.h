// The precision that a stage of a Plan chooses.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_PLAN_REWRITE_PRECISION_CHOICE_H_
#define TESSERA_CORE_PLAN_REWRITE_PRECISION_CHOICE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "core/proto/plan.pb.h"
#include "core/tensor/dtype.h"
#include "core/text/path_pattern.h"

namespace tessera {

// The dtypes that a stage states.
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

// Returns whether a Plan computes or reduces in 16 bits.
bool LowersPrecision(const Plan& plan);

// Fills in the fields that the stage leaves open; ReadPrecision must have accepted the stage.
void CompletePrecision(Stage& stage);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_REWRITE_PRECISION_CHOICE_H_
