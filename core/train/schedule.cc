#include "core/train/schedule.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace tessera {

double LearningRate(const OptimizerConfig& config, int64_t step, int64_t total_steps) {
  const int64_t warmup = config.warmup_steps();
  if (step <= warmup) {
    return config.lr() * static_cast<double>(step) / static_cast<double>(warmup);
  }
  if (config.schedule() == "constant") return config.lr();
  constexpr double kPi = 3.14159265358979323846;
  const int64_t end = config.decay_steps() > 0 ? config.decay_steps() : total_steps;
  const double share = std::min(
      1.0, static_cast<double>(step - warmup) / static_cast<double>(std::max(end, step) - warmup));
  const double above = config.lr() - config.min_lr();
  if (config.schedule() == "linear") return config.lr() - above * share;
  return config.min_lr() + above * 0.5 * (1 + std::cos(kPi * share));
}

absl::Status CheckSchedule(const OptimizerConfig& config) {
  if (config.schedule() != "constant" && config.schedule() != "linear" &&
      config.schedule() != "cosine") {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.schedule is '", config.schedule(),
                     "': it must be \"constant\", \"linear\" or \"cosine\""));
  }
  if (!std::isfinite(config.lr()) || config.lr() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.lr is ", config.lr(), ": it must be a finite number, 0 or more"));
  }
  // A constant schedule does not read it.
  const bool ends_at_min = config.schedule() != "constant";
  if (ends_at_min && !(config.min_lr() >= 0 && config.min_lr() <= config.lr())) {
    return absl::InvalidArgumentError(absl::StrCat("optimizer.min_lr is ", config.min_lr(),
                                                   ": it must be 0 to optimizer.lr, which is ",
                                                   config.lr()));
  }
  if (config.warmup_steps() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer.warmup_steps is ", config.warmup_steps(), ": it must be 0 or more"));
  }
  if (config.decay_steps() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.decay_steps is ", config.decay_steps(), ": it must be 0 or more"));
  }
  return absl::OkStatus();
}

}  // namespace tessera
