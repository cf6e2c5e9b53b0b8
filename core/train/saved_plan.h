// Reads the Plan of a checkpoint.
#ifndef TESSERA_CORE_TRAIN_SAVED_PLAN_H_
#define TESSERA_CORE_TRAIN_SAVED_PLAN_H_

#include "absl/status/statusor.h"
#include "core/proto/plan.pb.h"
#include "core/train/checkpoint/open_checkpoint.h"

namespace tessera {

// DataLoss if it is not a completed Plan: not in protobuf's text form, of a format that is not
// known, for more than one device, with a part for no Graph, fewer than one micro-batch or a pass
// that there is not. The message names the file. Kernels are not checked: those that this machine
// cannot use are replaced when the run is compiled, with a note. Thread safety: a pure function.
absl::StatusOr<Plan> ReadPlan(const Checkpoint& checkpoint);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_SAVED_PLAN_H_
