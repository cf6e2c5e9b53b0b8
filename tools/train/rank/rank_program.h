// A program that runs on the ranks of a job: it starts them or is one of them, and its errors are
// reported once.
#ifndef TESSERA_TOOLS_TRAIN_RANK_RANK_PROGRAM_H_
#define TESSERA_TOOLS_TRAIN_RANK_RANK_PROGRAM_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/connected_world.h"
#include "tools/launch/flags.h"
#include "tools/train/rank/job.h"

namespace tessera {

// Arguments are those after argv[0].
struct RankProgram {
  // Returns how to start the ranks that the arguments ask for, as processes of this program through
  // the launcher of tools/launch. Returns nothing if this process is to run the arguments itself,
  // or to report that they are wrong.
  std::function<std::optional<comm::LaunchCommandLine>(const std::vector<std::string>& arguments)>
      launch;
  // Runs the program, and returns its exit code. `name` is that by which the user called it, for
  // commands that are shown; files that come with the program are found without it
  // (core/posix/program_files.h).
  std::function<absl::StatusOr<int>(const std::string& name,
                                    const std::vector<std::string>& arguments)>
      run;
};

// The main function of a job program. Returns the exit code: 0; 1 after an error, which is one line
// on stderr; 128 + the signal after an interrupt. Call once, in a process with one thread.
int RankMain(int argc, char** argv, const RankProgram& program);

// Calls `run_rank`, which returns the exit code, on this rank of the job that the environment
// describes, or, if `threads` > 0, on so many ranks that are threads of this process. Then leaves
// the job. An error ends all ranks, and one of them reports it.
absl::StatusOr<int> RunAsRank(const comm::WorldOptions& options, int threads,
                              const std::function<absl::StatusOr<int>(Job& job)>& run_rank);

// Lets rank 0 report an error that probably all ranks have, for ranks that are not connected and
// cannot agree on one. Rank 0 returns at once, reports the error and ends; a launcher then ends the
// others, which wait here. A rank that still runs after a while reports its error itself. Call it
// before such an error is returned.
void LetFirstRankReport();

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_RANK_RANK_PROGRAM_H_
