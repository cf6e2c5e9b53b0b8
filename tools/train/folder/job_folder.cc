#include "tools/train/folder/job_folder.h"

#include <ctime>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/posix/folder.h"
#include "core/posix/user_folder.h"

namespace tessera {
namespace {

// The file in a run's folder that names the job.
constexpr char kJobFile[] = "job";

// The prefix of names of torchrun's jobs, which are not unique.
constexpr char kTorchrun[] = "torchrun-";

// Returns whether the run's folder may be named after the job.
bool MayNameFolder(const JobAttempt& attempt) {
  return !attempt.id.empty() && !absl::StartsWith(attempt.id, kTorchrun);
}

bool IsOfJob(const std::string& path, const JobAttempt& attempt) {
  const absl::StatusOr<Folder> folder = Folder::Open(path);
  if (attempt.id.empty() || !folder.ok()) return false;
  const std::string own = absl::StrCat(attempt.id, "\n");
  // One byte more shows that there are too many.
  const absl::StatusOr<std::string> text = folder->ReadStart(kJobFile, own.size() + 1);
  return text.ok() && *text == own;
}

}  // namespace

JobAttempt ReadJobAttempt(const EnvironmentLookup& lookup) {
  const auto text = [&](const char* name) -> std::string {
    const char* const value = lookup(name);
    return value == nullptr ? "" : value;
  };
  JobAttempt attempt;
  attempt.id = text("TESSERA_JOB_ID");
  std::string restarts = text("TESSERA_RESTART_COUNT");
  if (attempt.id.empty() && !text("TORCHELASTIC_RUN_ID").empty()) {
    attempt.id = absl::StrCat(kTorchrun, text("TORCHELASTIC_RUN_ID"));
    restarts = text("TORCHELASTIC_RESTART_COUNT");
  }
  if (!absl::SimpleAtoi(restarts, &attempt.restarts)) attempt.restarts = 0;
  return attempt;
}

std::string FolderOfJob(const CommandLine& line, const std::string& model,
                        const JobAttempt& attempt) {
  if (!line.out.empty()) return UserPath(line.out);
  if (!MayNameFolder(attempt)) return NewRunPath(model, std::time(nullptr));
  return UserPath(absl::StrCat("runs/", model, "-", attempt.id));
}

absl::Status RecordJob(const JobAttempt& attempt, RunFolder* folder) {
  if (attempt.id.empty()) return absl::OkStatus();
  return folder->WriteText(kJobFile, absl::StrCat(attempt.id, "\n"));
}

absl::StatusOr<std::string> FolderToResume(const CommandLine& line, const std::string& model,
                                           const JobAttempt& attempt) {
  if (line.requeue) {
    const std::string out = UserPath(line.out);
    return HoldsCheckpoint(out) ? out : "";
  }
  if (attempt.restarts == 0) return "";
  if (line.out.empty() && !line.resume.empty() && !RunOf(UserPath(line.resume)).is_checkpoint) {
    return "";  // it resumes its own run anyway
  }
  if (line.out.empty() && !MayNameFolder(attempt)) {
    return absl::InvalidArgumentError(
        "this job was started again and has no --out=DIR: its launcher does not say which run "
        "folder it wrote before");
  }
  const std::string own = FolderOfJob(line, model, attempt);
  return IsOfJob(own, attempt) && HoldsCheckpoint(own) ? own : "";
}

}  // namespace tessera
