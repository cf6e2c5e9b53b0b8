// Reads the Plan of a checkpoint.
#ifndef TESSERA_CORE_TRAIN_RECORD_SAVED_PLAN_H_
#define TESSERA_CORE_TRAIN_RECORD_SAVED_PLAN_H_

#include "absl/status/statusor.h"
#include "core/proto/plan.pb.h"
#include "core/train/checkpoint/open_checkpoint.h"

namespace tessera {

// Parses and checks the checkpoint's plan. Returns DataLoss, with the file's name, if it is not a
// completed Plan: not in protobuf's text form, of an unknown format, with more than one stage, with
// a part without a Graph, fewer than one micro-batch, or an unknown pass. Kernels are not checked:
// compiling the run replaces those that this machine cannot use, with a note.
//
// Thread safety: a pure function.
absl::StatusOr<Plan> ReadPlan(const Checkpoint& checkpoint);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_RECORD_SAVED_PLAN_H_
