// Which flags of the training tool go together.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_TRAIN_FLAGS_CHECK_COMBINATION_H_
#define TESSERA_TOOLS_TRAIN_FLAGS_CHECK_COMBINATION_H_

#include "absl/status/status.h"
#include "tools/train/flags/flags.h"

namespace tessera {

// Returns InvalidArgument if a flag contradicts another or needs one that is missing, and names the
// remedy.
absl::Status CheckCombination(const CommandLine& line);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_FLAGS_CHECK_COMBINATION_H_
