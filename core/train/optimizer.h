// Records an optimizer's update into a training Graph: gradients, their norm, clipping, the new
// parameters and moments. All of it is operators of the Graph, so a strategy sees all of it.
#ifndef TESSERA_CORE_TRAIN_OPTIMIZER_H_
#define TESSERA_CORE_TRAIN_OPTIMIZER_H_

#include <functional>

#include "absl/status/status.h"
#include "core/graph/graph.h"
#include "core/train/config/run_config.pb.h"

namespace tessera {

// Which parameters weight decay applies to.
using DecayRule = std::function<bool(const State& parameter)>;
// Those with two or more dimensions whose path does not end in ".bias".
bool DecaysByDefault(const State& parameter);

// Appends to a Graph that records `loss`:
// - the gradient of every trainable parameter, and grad_norm, the norm of all of them together,
//   added up in the order in which the parameters were declared;
// - the update by `config`, where clip_norm > 0 with gradients times
//   min(1, clip_norm / (grad_norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does;
// - state: `<parameter>.momentum`, or `<parameter>.adam_m` and `.adam_v`, in f32, and
//   `optimizer.step` (i64), the count of updates that were made;
// - the input "lr" (f32 scalar) and the outputs "loss", "grad_norm" and "finite" (i32 scalar).
// A step whose loss or norm is not finite has finite = 0 and leaves all state as it was.
// InvalidArgument names the field of the configuration that does not fit.
absl::Status RecordUpdate(Graph& graph, Tensor loss, const OptimizerConfig& config,
                          const DecayRule& decays = DecaysByDefault);

// The fields that the update itself reads; the schedule's are CheckSchedule's.
absl::Status CheckOptimizer(const OptimizerConfig& config);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_OPTIMIZER_H_
