// Reads a Plan from protobuf's text form, as people write it.
#ifndef TESSERA_CORE_TRAIN_RECORD_PLAN_TEXT_H_
#define TESSERA_CORE_TRAIN_RECORD_PLAN_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Returns InvalidArgument, with a message of one line that names the malformed line or the fault
// that CheckPlanForm found; of a field of format 1 it says what to write instead. Thread safety: a
// pure function.
absl::StatusOr<Plan> ParsePlanText(const std::string& file);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_RECORD_PLAN_TEXT_H_
