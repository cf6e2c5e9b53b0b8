// The folder of a run:
//
//   config.textproto       the effective configuration
//   metrics.jsonl          core/train/record/metrics.h
//   events.out.tfevents.*  the same for TensorBoard, a file each time that the run begins or
//   resumes checkpoints/           core/train/checkpoint dump/                  the texts of --dump
//   job                    the name of the job that writes the run, if it has one
//   seen_by_all_ranks      while ranks check that they see the folder
//
// A run opens all of them below the descriptor of its folder, and follows no link to write there
// (core/posix/folder.h).
#ifndef TESSERA_TOOLS_TRAIN_FOLDER_RUN_FOLDER_H_
#define TESSERA_TOOLS_TRAIN_FOLDER_RUN_FOLDER_H_

#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/posix/file_descriptor.h"
#include "core/posix/folder.h"

namespace tessera {

// Returns "<the user's folder>/runs/gpt-20250131-235959", with "-2", "-3", ... if that exists.
std::string NewRunPath(absl::string_view model, std::time_t now);

// Returns the run folder of a path: for a checkpoint or a folder of checkpoints, the folder that
// contains it, else the path itself.
struct RunPath {
  std::string run;
  bool is_checkpoint = false;  // whether the path is a single checkpoint
};
RunPath RunOf(const std::string& path);

// Returns whether a folder holds a checkpoint, or a run's folder of them.
bool HoldsCheckpoint(const std::string& path);

// Returns whether a folder holds a run that was stopped before its first checkpoint.
bool HoldsRunWithoutCheckpoint(const std::string& path);

// The first line of a run's config.textproto, which identifies it.
inline constexpr char kConfigTitle[] =
    "# The effective configuration of a run: every field, also those that nobody set.\n";

// The name of a run's metrics.
inline constexpr char kMetricsName[] = "metrics.jsonl";

// Returns whether two paths lead to the same folder.
bool SameFolder(const std::string& a, const std::string& b);

// Not thread-safe. While it exists, no other process can open the folder.
class RunFolder {
 public:
  // Makes the folder if it does not exist. AlreadyExists if it holds checkpoints and `resuming` is
  // false, or if its config.textproto is not a run's. So a run that was stopped before its first
  // checkpoint can be started again in its folder. PermissionDenied if the folder, its folder of
  // checkpoints, or a link to the folder belongs to another user (Folder::CheckOwner),
  // InvalidArgument if its folder of checkpoints is a link, Unavailable if another process trains
  // there; else the system's error, which names the path.
  static absl::StatusOr<std::unique_ptr<RunFolder>> Open(const std::string& path, bool resuming);
  // Removes the folder if Open made it and nothing was written to it.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return folder_.path(); }
  const Folder& folder() const { return folder_; }
  // Lines for the user about others who can change what the run saves.
  std::vector<std::string> Notes() const;

  // Replaces a file atomically: an entry of another kind than a folder is replaced, too. `name` may
  // contain folders.
  absl::Status WriteText(const std::string& name, absl::string_view text);
  // Removes a file that WriteText has made. Another process may have done so.
  void Remove(const std::string& name);

 private:
  RunFolder(Folder folder, bool made, FileDescriptor lock)
      : folder_(std::move(folder)), made_(made), lock_(std::move(lock)) {}

  const Folder folder_;
  const bool made_;  // by Open
  const FileDescriptor lock_;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_FOLDER_RUN_FOLDER_H_
