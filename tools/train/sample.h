// Text that a trained model generates.
#ifndef TESSERA_TOOLS_TRAIN_SAMPLE_H_
#define TESSERA_TOOLS_TRAIN_SAMPLE_H_

#include "absl/status/status.h"
#include "core/runtime/engine.h"
#include "tools/train/rank/stop_request.h"
#include "tools/train/setup/configure.h"

namespace tessera {

// Generates the sample that the configuration describes, and prints it to stdout token by token,
// set apart from its prompt. Ends early if the run is asked to stop. Rank 0 draws the tokens.
absl::Status PrintSample(const ConfiguredRun& configured, Engine& engine, StopRequest& stop);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SAMPLE_H_
