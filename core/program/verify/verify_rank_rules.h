// The part of VerifyProgram that checks what differs between ranks.
#ifndef TESSERA_CORE_PROGRAM_VERIFY_VERIFY_RANK_RULES_H_
#define TESSERA_CORE_PROGRAM_VERIFY_VERIFY_RANK_RULES_H_

#include "absl/status/status.h"
#include "core/program/program.h"

namespace tessera {

// Checks that the shapes, strides and buffers of parts, slices and members of flat groups agree
// with their rules.
absl::Status VerifyRankRules(const Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_VERIFY_VERIFY_RANK_RULES_H_
