// Opens the folder of a run, the resumed run's or a new one, on rank 0 for all ranks.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_OPEN_RUN_H_
#define TESSERA_TOOLS_TRAIN_SETUP_OPEN_RUN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/train/flags/flags.h"
#include "tools/train/folder/own_run.h"
#include "tools/train/folder/run_folder.h"
#include "tools/train/setup/setup.h"

namespace tessera {

// Returns the folder of the resumed run if this run continues in it, else nullptr. The folder is
// locked before a checkpoint is chosen: no other process can save or remove one meanwhile.
absl::StatusOr<std::unique_ptr<RunFolder>> OpenResumedFolder(const CommandLine& line);

absl::StatusOr<std::unique_ptr<RunFolder>> OpenNewFolder(const CommandLine& line,
                                                         const Setup& setup,
                                                         const StartOfJob& start);

// Opens the folder of a training run on rank 0, unless `folder` is that of the resumed run already,
// and checks that all ranks see it and that its disk has room for a checkpoint. Renames the damaged
// checkpoints of a resumed run, and removes the remains of killed saves. Adds notes to the setup,
// also if it fails. Returns the folder's path. Collective; errors are agreed ones.
absl::StatusOr<std::string> OpenFolder(const CommandLine& line, const StartOfJob& start,
                                       Setup* setup, std::unique_ptr<RunFolder>* folder);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_OPEN_RUN_H_
