// Reads a Plan from protobuf's text form, as people write it.
#ifndef TESSERA_CORE_TRAIN_RECORD_PLAN_TEXT_H_
#define TESSERA_CORE_TRAIN_RECORD_PLAN_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Returns InvalidArgument, with a message of one line that names the malformed line or the fault
// that CheckPlanForm found. Thread safety: a pure function.
absl::StatusOr<Plan> ParsePlanText(const std::string& text);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_RECORD_PLAN_TEXT_H_
