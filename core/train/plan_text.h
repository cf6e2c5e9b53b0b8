// Reads a Plan from protobuf's text form, as people write it.
#ifndef TESSERA_CORE_TRAIN_PLAN_TEXT_H_
#define TESSERA_CORE_TRAIN_PLAN_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// InvalidArgument, in one line, names the line that is malformed, or what no run can follow
// (CheckPlanForm). Thread safety: a pure function.
absl::StatusOr<Plan> ParsePlanText(const std::string& text);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_PLAN_TEXT_H_
