// Records an optimizer's update in a training Graph: gradients, their norm, clipping, the updated
// parameters and moments. All of these are operators of the Graph, visible to a strategy.
#ifndef TESSERA_CORE_TRAIN_OPTIMIZER_H_
#define TESSERA_CORE_TRAIN_OPTIMIZER_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "core/train/config/run_config.pb.h"

namespace tessera {

// Selects the parameters to which weight decay applies.
using DecayRule = std::function<bool(const State& parameter)>;
// Selects parameters with two or more dimensions that are not biases.
bool DecaysByDefault(const State& parameter);

// The factor by which the loss, and therefore every gradient, is multiplied so that small gradients
// do not become 0 in f16. It is halved by a step whose gradients overflow, and doubled after
// `growth_steps` steps without an overflow. It stays between 1 and 2^24.
struct LossScaling {
  double first = 65536;
  int64_t growth_steps = 2000;
};

// Appends to a Graph that records `loss`:
// - the gradient of every trainable parameter, and grad_norm, the norm of all of them together,
//   added in the order in which the parameters were declared;
// - the update by `config`; if clip_norm > 0, gradients are multiplied by
//   min(1, clip_norm / (grad_norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does;
// - state: `<parameter>.momentum`, or `<parameter>.adam_m` and `.adam_v`, in f32, and
//   `optimizer.step` (i64), the number of updates;
// - the input "lr" (f32 scalar) and the outputs "loss", "grad_norm" and "finite" (i32 scalar).
// A step whose loss, norm or running statistics are not finite has finite = 0 and changes no state
// but the loss scale. Running statistics (Role::kRunningStatistic) otherwise get the values that
// the Graph has set; they are in no gradient, norm or decay.
// - with `scaling` the states kLossScalePath (core/plan/rewrite/precision.h; f32) and
//   `optimizer.loss_scale_steps` (i64: steps since it last changed) and the output "loss_scale",
//   which is that of the next step. The outputs "loss" and "grad_norm" and the updates are without
//   the factor.
// Returns InvalidArgument, with the field of the configuration, for a value out of range.
absl::Status RecordUpdate(Graph& graph, Tensor loss, const OptimizerConfig& config,
                          const DecayRule& decays = DecaysByDefault,
                          const std::optional<LossScaling>& scaling = std::nullopt);

// Returns whether this is the path of a state of the loss scale.
bool IsLossScaleState(absl::string_view path);

// Returns the paths of all states that an optimizer may have for a parameter, in its shape.
std::vector<std::string> MomentPaths(absl::string_view parameter);

// Checks the fields that the update reads; CheckSchedule checks those of the schedule.
absl::Status CheckOptimizer(const OptimizerConfig& config);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_OPTIMIZER_H_
