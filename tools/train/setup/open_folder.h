// Opens the folder of a run, the resumed run's or a new one, on rank 0 for all ranks.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_OPEN_FOLDER_H_
#define TESSERA_TOOLS_TRAIN_SETUP_OPEN_FOLDER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "tools/train/flags/flags.h"
#include "tools/train/folder/job_folder.h"
#include "tools/train/folder/run_folder.h"
#include "tools/train/setup/configure.h"

namespace tessera {

// Returns the folder of the resumed run if this run continues in it, else nullptr. The folder is
// locked before a checkpoint is chosen: no other process can save or remove one meanwhile.
absl::StatusOr<std::unique_ptr<RunFolder>> OpenResumedFolder(const CommandLine& line);

// Opens the folder of a new run of a model.
absl::StatusOr<std::unique_ptr<RunFolder>> OpenNewFolder(const CommandLine& line,
                                                         const std::string& model,
                                                         const JobAttempt& attempt);

struct OpenedFolder {
  std::string path;
  std::unique_ptr<RunFolder> folder;  // on rank 0, open
};

// Opens the folder of a training run on rank 0, unless `resumed` is that of the resumed run
// already, and checks that all ranks see it and that its disk has room for a checkpoint. Renames
// the damaged checkpoints of a resumed run, and removes the remains of killed saves. Collective;
// errors are agreed ones. `notes` receives notes for the user, also if it fails.
absl::StatusOr<OpenedFolder> OpenFolder(const CommandLine& line, const JobAttempt& attempt,
                                        const ConfiguredRun& configured,
                                        const CompiledRun& compiled,
                                        std::unique_ptr<RunFolder> resumed,
                                        std::vector<std::string>* notes);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_OPEN_FOLDER_H_
