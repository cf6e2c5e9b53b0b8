// The part of VerifyProgram that looks at what differs between ranks.
#ifndef TESSERA_CORE_PROGRAM_VERIFY_RANK_RULES_H_
#define TESSERA_CORE_PROGRAM_VERIFY_RANK_RULES_H_

#include "absl/status/status.h"
#include "core/program/program.h"

namespace tessera {

// Checks that parts, slices and members of flat groups have the shapes, strides and buffers of
// their rules.
absl::Status VerifyRankRules(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_VERIFY_RANK_RULES_H_
