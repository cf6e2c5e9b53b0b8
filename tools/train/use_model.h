// The modes that do not train: evaluate, predict and sample.
#ifndef TESSERA_TOOLS_TRAIN_USE_MODEL_H_
#define TESSERA_TOOLS_TRAIN_USE_MODEL_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/train/ranks/ranks.h"
#include "tools/train/flags/flags.h"
#include "tools/train/setup/configure.h"

namespace tessera {

// Returns whether standard output is to have the table of predictions, and nothing else.
bool PrintsRows(const CommandLine& line);

// Returns the agreed error of a file of --predictions that rank 0 cannot write, and leaves the file
// as it is. Collective.
absl::Status CheckPredictionsFile(const CommandLine& line, Ranks& ranks);

// Runs the mode of the command line, which is not train, with the model of the run's checkpoint.
// Returns the exit code: 0, or 128 + the signal after an interrupt, which leaves no predictions.
// Rank 0 prints and writes. Collective.
absl::StatusOr<int> UseModel(const CommandLine& line, const ConfiguredRun& configured,
                             CompiledRun compiled);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_USE_MODEL_H_
