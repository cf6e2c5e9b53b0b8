#include "tools/train/folder/own_run.h"

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

// Returns whether a run's folder can have the job's name.
bool NamesRun(const StartOfJob& start) {
  return !start.id.empty() && !absl::StartsWith(start.id, kTorchrun);
}

bool IsOwn(const std::string& path, const StartOfJob& start) {
  const absl::StatusOr<Folder> folder = Folder::Open(path);
  if (start.id.empty() || !folder.ok()) return false;
  const std::string own = absl::StrCat(start.id, "\n");
  // One byte more shows that there are too many.
  const absl::StatusOr<std::string> text = folder->ReadStart(kJobFile, own.size() + 1);
  return text.ok() && *text == own;
}

}  // namespace

StartOfJob ReadStartOfJob(const EnvironmentLookup& lookup) {
  const auto text = [&](const char* name) -> std::string {
    const char* const value = lookup(name);
    return value == nullptr ? "" : value;
  };
  StartOfJob start;
  start.id = text("TESSERA_JOB_ID");
  std::string restarts = text("TESSERA_RESTART_COUNT");
  if (start.id.empty() && !text("TORCHELASTIC_RUN_ID").empty()) {
    start.id = absl::StrCat(kTorchrun, text("TORCHELASTIC_RUN_ID"));
    restarts = text("TORCHELASTIC_RESTART_COUNT");
  }
  if (!absl::SimpleAtoi(restarts, &start.restarts)) start.restarts = 0;
  return start;
}

std::string RunPathOf(const CommandLine& line, const std::string& model, const StartOfJob& start) {
  if (!line.out.empty()) return UserPath(line.out);
  if (!NamesRun(start)) return NewRunPath(model, std::time(nullptr));
  return UserPath(absl::StrCat("runs/", model, "-", start.id));
}

absl::Status MarkOwnRun(const StartOfJob& start, RunFolder* folder) {
  if (start.id.empty()) return absl::OkStatus();
  return folder->WriteText(kJobFile, absl::StrCat(start.id, "\n"));
}

absl::StatusOr<std::string> OwnRunToResume(const CommandLine& line, const std::string& model,
                                           const StartOfJob& start) {
  if (line.requeue) {
    const std::string out = UserPath(line.out);
    return HoldsCheckpoint(out) ? out : "";
  }
  if (start.restarts == 0) return "";
  if (line.out.empty() && !line.resume.empty() && !RunOf(UserPath(line.resume)).is_checkpoint) {
    return "";  // it resumes its own run anyway
  }
  if (line.out.empty() && !NamesRun(start)) {
    return absl::InvalidArgumentError(
        "this job was started again and has no --out=DIR: its launcher does not say which run "
        "folder it wrote before");
  }
  const std::string own = RunPathOf(line, model, start);
  return IsOwn(own, start) && HoldsCheckpoint(own) ? own : "";
}

}  // namespace tessera
