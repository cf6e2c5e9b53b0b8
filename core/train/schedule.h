// The learning rate of every step.
#ifndef TESSERA_CORE_TRAIN_SCHEDULE_H_
#define TESSERA_CORE_TRAIN_SCHEDULE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/train/config/run_config.pb.h"

namespace tessera {

// Steps count from 1. Up to config.warmup_steps the rate is lr * step / warmup_steps; then it is
// constant ("constant"), or decays to min_lr at step config.decay_steps, or `total_steps` if that
// is 0, linearly ("linear") or as half a cosine ("cosine"). Thread safety: a pure function.
// `config` must have passed CheckSchedule.
double LearningRate(const OptimizerConfig& config, int64_t step, int64_t total_steps);

// Returns InvalidArgument, with the field of the configuration, for a value out of range.
absl::Status CheckSchedule(const OptimizerConfig& config);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_SCHEDULE_H_
