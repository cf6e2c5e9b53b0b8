// The checkpoint that a run resumes from: which one it is, and whether the run fits it.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_RESUME_H_
#define TESSERA_TOOLS_TRAIN_SETUP_RESUME_H_

#include "absl/status/status.h"
#include "tools/train/setup/setup.h"

namespace tessera {

// Opens the checkpoint of --resume, if that is set. Rank 0 chooses it, and the others open the
// same. Sets `checkpoint` and `damaged`. Collective, and an agreed error.
absl::Status ChooseCheckpoint(const CommandLine& line, Setup* setup);

// Compares the state of the checkpoint with that of the compiled run. If they differ, the error
// names the fields that were overridden.
absl::Status CheckResumedState(const CommandLine& line, const Setup& setup);

// Compares the data with those of the checkpoint, and sets the row at which training goes on.
absl::Status ResumeInData(const CommandLine& line, Setup* setup);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_RESUME_H_
