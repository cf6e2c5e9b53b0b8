// The run folder of a job, also when its launcher starts it again after a failure.
#ifndef TESSERA_TOOLS_TRAIN_FOLDER_JOB_FOLDER_H_
#define TESSERA_TOOLS_TRAIN_FOLDER_JOB_FOLDER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/train/flags/flags.h"
#include "tools/train/folder/run_folder.h"

namespace tessera {

// One of the times that a launcher starts a job.
struct JobAttempt {
  std::string id;    // a name of the job, the same for each start; "" if there is none
  int restarts = 0;  // how often the job was started before
};

// The value of an environment variable, or null; as std::getenv.
using EnvironmentLookup = std::function<const char*(const char* name)>;

// Reads TESSERA_JOB_ID and TESSERA_RESTART_COUNT, which tools/launch sets, or torchrun's variables.
JobAttempt ReadJobAttempt(const EnvironmentLookup& lookup);

// Returns the folder of a new run: --out, or one below runs/, with the job's name if it has one.
std::string FolderOfJob(const CommandLine& line, const std::string& model,
                        const JobAttempt& attempt);

// Records in a run's folder that this job writes it.
absl::Status RecordJob(const JobAttempt& attempt, RunFolder* folder);

// Returns the run folder from which a job resumes that is started again: by its launcher, its own
// folder, or with --requeue, the folder of --out; "" if that holds no checkpoint, or if the job is
// not started again: then the command line is run as at the first start. InvalidArgument if its own
// folder cannot be determined.
absl::StatusOr<std::string> FolderToResume(const CommandLine& line, const std::string& model,
                                           const JobAttempt& attempt);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_FOLDER_JOB_FOLDER_H_
