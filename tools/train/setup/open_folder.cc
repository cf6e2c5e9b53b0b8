#include "tools/train/setup/open_folder.h"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/posix/folder.h"
#include "core/posix/output_file.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/remains.h"
#include "core/train/checkpoint/set_aside.h"
#include "core/train/ranks/ranks.h"
#include "core/train/state/save_state.h"
#include "tools/train/folder/disk_space.h"

namespace tessera {
namespace {

// Returns the folders of damaged checkpoints that are newer than step `step`, from which the run
// resumes. AlreadyExists if there is a newer one that is complete.
absl::StatusOr<std::vector<std::string>> FindNewerDamaged(const RunFolder& folder, int64_t step) {
  const auto newest = OpenCheckpoint(folder.path());
  if (!newest.ok()) return std::vector<std::string>();
  const int64_t newest_step = newest->checkpoint->step();
  if (newest_step <= step) return newest->damaged;
  return absl::AlreadyExistsError(
      absl::StrCat(folder.path(), " holds a newer checkpoint, of step ", newest_step,
                   ": choose another --out, or none for a new run folder"));
}

// Appends `more` to `texts`.
void AddTexts(const std::vector<std::string>& more, std::vector<std::string>* texts) {
  texts->insert(texts->end(), more.begin(), more.end());
}

// Renames the damaged checkpoints of the run that goes on in this folder, and says so.
absl::Status SetAside(const RunFolder& folder, const std::vector<std::string>& damaged,
                      std::vector<std::string>* notes) {
  ASSIGN_OR_RETURN(const Folder checkpoints, folder.folder().OpenFolder(kCheckpointsName));
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, SetAsideDamaged(checkpoints, damaged));
  AddTexts(lines, notes);
  return absl::OkStatus();
}

// Removes the remains of killed saves, and notes those that cannot be removed.
absl::Status RemoveRemainsIn(const RunFolder& folder, std::vector<std::string>* notes) {
  const absl::StatusOr<Folder> checkpoints = folder.folder().OpenFolder(kCheckpointsName);
  if (absl::IsNotFound(checkpoints.status())) return absl::OkStatus();
  RETURN_IF_ERROR(checkpoints.status());
  ASSIGN_OR_RETURN(const std::vector<std::string> left, RemoveRemains(*checkpoints));
  AddTexts(left, notes);
  return absl::OkStatus();
}

// Removes what killed saves have left, and checks that the disk then has room for a checkpoint.
// Adds a note if it has none for all.
absl::Status RemoveRemainsAndCheckRoom(const RunFolder& folder, const ConfiguredRun& configured,
                                       const CompiledRun& compiled,
                                       std::vector<std::string>* notes) {
  RETURN_IF_ERROR(RemoveRemainsIn(folder, notes));
  const int64_t done = configured.checkpoint == nullptr ? 0 : configured.checkpoint->step();
  ASSIGN_OR_RETURN(const std::string note, NoteOnDiskSpace(folder.path(), configured.config, done,
                                                           SavedBytes(StatesOf(compiled))));
  if (!note.empty()) notes->push_back(note);
  return absl::OkStatus();
}

// The file by which other ranks check that they see rank 0's run folder.
constexpr char kSeenFile[] = "seen_by_all_ranks";
// A file on a network's file system may be seen a few seconds late.
constexpr int kLooks = 50;
constexpr std::chrono::milliseconds kBetweenLooks{100};

// Checks that all ranks see the folder that rank 0 has opened.
absl::Status CheckSeenByAll(Ranks& ranks, const std::string& path, RunFolder* folder) {
  if (ranks.size() == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text,
                   ranks.BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
                     const std::string mark = absl::StrCat(std::time(nullptr), " ", getpid());
                     RETURN_IF_ERROR(folder->WriteText(kSeenFile, mark));
                     return mark;
                   }));
  const auto sees = [&] {
    const absl::StatusOr<Folder> seen = Folder::Open(path);
    if (!seen.ok()) return false;
    const absl::StatusOr<std::string> mark = seen->ReadStart(kSeenFile, text.size() + 1);
    return mark.ok() && *mark == text;
  };
  for (int look = 1; look < kLooks && !sees(); ++look) std::this_thread::sleep_for(kBetweenLooks);
  const absl::Status status =
      sees()
          ? absl::OkStatus()
          : absl::FailedPreconditionError(absl::StrCat(
                "the run folder ", path, " of rank 0 is not seen here: all ranks need --out=DIR ",
                "on a file system that they share"));
  const absl::Status agreed = ranks.Agree(status);
  if (ranks.is_first()) folder->Remove(kSeenFile);
  return agreed;
}

// Returns whether a path leads to a folder whose entries can be opened.
bool IsFolder(const std::string& path) { return !path.empty() && Exists(absl::StrCat(path, "/.")); }

}  // namespace

absl::StatusOr<std::unique_ptr<RunFolder>> OpenResumedFolder(const CommandLine& line) {
  if (line.resume.empty()) return nullptr;
  const RunPath resumed = RunOf(UserPath(line.resume));
  // A single checkpoint begins a new run, so that later checkpoints of its run are kept.
  if (line.out.empty() ? resumed.is_checkpoint : !SameFolder(UserPath(line.out), resumed.run)) {
    return nullptr;
  }
  // If the path is no folder, opening a checkpoint there reports it.
  if (!IsFolder(resumed.run)) return nullptr;
  return RunFolder::Open(resumed.run, /*resuming=*/true);
}

absl::StatusOr<std::unique_ptr<RunFolder>> OpenNewFolder(const CommandLine& line,
                                                         const std::string& model,
                                                         const JobAttempt& attempt) {
  ASSIGN_OR_RETURN(std::unique_ptr<RunFolder> folder,
                   RunFolder::Open(FolderOfJob(line, model, attempt), /*resuming=*/false));
  RETURN_IF_ERROR(RecordJob(attempt, folder.get()));
  return folder;
}

absl::StatusOr<OpenedFolder> OpenFolder(const CommandLine& line, const JobAttempt& attempt,
                                        const ConfiguredRun& configured,
                                        const CompiledRun& compiled,
                                        std::unique_ptr<RunFolder> resumed,
                                        std::vector<std::string>* notes) {
  Ranks& ranks = *configured.ranks.ranks;
  OpenedFolder opened = {"", std::move(resumed)};
  std::unique_ptr<RunFolder>& folder = opened.folder;
  ASSIGN_OR_RETURN(opened.path, ranks.BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
    if (!line.trace.empty()) RETURN_IF_ERROR(CheckOutputFile(UserPath(line.trace)));
    if (folder != nullptr) {
      std::vector<std::string> damaged = configured.damaged;
      ASSIGN_OR_RETURN(const std::vector<std::string> newer,
                       FindNewerDamaged(*folder, configured.checkpoint->step()));
      AddTexts(newer, &damaged);
      RETURN_IF_ERROR(SetAside(*folder, damaged, notes));
    } else {
      ASSIGN_OR_RETURN(folder, OpenNewFolder(line, configured.definition->name, attempt));
    }
    AddTexts(folder->Notes(), notes);
    RETURN_IF_ERROR(RemoveRemainsAndCheckRoom(*folder, configured, compiled, notes));
    return folder->path();
  }));
  RETURN_IF_ERROR(CheckSeenByAll(ranks, opened.path, folder.get()));
  return opened;
}

}  // namespace tessera
