// Writes checkpoints atomically.
//
// All files are written to a temporary folder beside the checkpoints; each file and then the folder
// are synced to the disk; the folder is renamed; its parent is synced. So after a crash, a kill or
// a full disk at any moment, every checkpoint that has a checkpoint's name is complete, and earlier
// ones are unchanged. Only then are old checkpoints removed, if the same run has saved them. The
// next save removes the remains of a killed one (remains.h).
//
// The ranks of a job save together, in this order, and may send the messages between them by any
// means. A run of one process is a job of one rank.
//
//   1. Rank 0 calls CheckpointSave::Begin, and sends folder() to all ranks.
//   2. Every rank, rank 0 included, writes its shards in that folder (WriteStates in
//      core/train/state/save_state.h), and sends its report to rank 0, also if it could not write.
//   3. Rank 0 calls Finish with all reports, and sends the result to all ranks.
//
// If rank 0 does not get all reports, it destroys its CheckpointSave.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_SAVE_CHECKPOINT_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_SAVE_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/posix/file_descriptor.h"
#include "core/posix/folder.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/manifest.h"
#include "core/train/checkpoint/shard_report.pb.h"
#include "core/train/checkpoint/state_entry.h"
#include "core/train/checkpoint/state_files.h"

namespace tessera {

struct CheckpointContents {
  int64_t step = 0;           // names the folder
  int64_t rows = 0;           // the position in the data: rows that training has taken
  int64_t sequence = 1;       // tokens of each
  int64_t state_version = 1;  // of the shapes of the model's states
  std::string data;           // the fingerprint of the training data, or ""
  std::string run;            // the identity of the run, or "" (Manifest::run)
  std::vector<StateEntry> state;
  std::string plan;    // the completed Plan, in text form
  std::string config;  // the run's configuration, in text form
};

struct SaveOptions : WriteOptions {
  // The number of checkpoints that are kept: the new one, and the newest others. If some are to be
  // removed, the newest eight count only if they are complete (CheckComplete) and of this run.
  // set_aside.h renames those that a resumed run found damaged. What another run has saved, or
  // nobody knows, is left, with a warning. 0 keeps all. The disk must have room for one more.
  int64_t keep = 3;
};

struct SavedCheckpoint {
  std::string folder;
  int64_t bytes = 0;  // of all its files
  // Failures that do not affect the new checkpoint, such as an old one that could not be removed.
  // One line each.
  std::vector<std::string> warnings;
};

// Returns InvalidArgument for contents that cannot be saved: a step out of range, a state with a
// role, path or shape that cannot be saved, or texts that are too long to be read again. Lets a run
// fail before it begins.
absl::Status CheckContents(const CheckpointContents& contents);

// A save in progress, on rank 0. One thread of one process at a time.
class CheckpointSave {
 public:
  // Makes missing folders, takes the lock of the run's checkpoints, removes the remains of killed
  // saves, and makes a new temporary folder. Returns InvalidArgument for contents that cannot be
  // saved or if the folder "checkpoints" of the run is a link, PermissionDenied if one of the two
  // folders belongs to another user, and Unavailable if another process is saving to this run.
  static absl::StatusOr<std::unique_ptr<CheckpointSave>> Begin(absl::string_view run_folder,
                                                               CheckpointContents contents,
                                                               const SaveOptions& options);
  // Removes the temporary folder, unless Finish has renamed it. If a rank is still writing there,
  // the next save removes the remains.
  ~CheckpointSave();
  CheckpointSave(const CheckpointSave&) = delete;
  CheckpointSave& operator=(const CheckpointSave&) = delete;

  // The path of the temporary folder, in which all ranks write.
  const std::string& folder() const { return temporary_->path(); }

  // Writes the texts and then the manifest, and renames the folder to <run_folder>/checkpoints/
  // step_<step>; a checkpoint of the same step and run is replaced. reports[i] is that of rank i.
  // Returns the first rank's error if there is one, InvalidArgument if the reports together do not
  // hold each element of each state once, and FailedPrecondition if this rank does not see the file
  // of another one, or if something else has the name of the checkpoint. After an error, earlier
  // checkpoints are unchanged, unless the message says that the new one is complete: then it has
  // its name, and has replaced a checkpoint of the same step, but the system could not bring that
  // to the disk. Call it once.
  absl::StatusOr<SavedCheckpoint> Finish(absl::Span<const ShardReport> reports);

 private:
  CheckpointSave(CheckpointContents contents, const SaveOptions& options);

  // The part of Begin that changes the disk.
  absl::Status Prepare(const std::string& run_folder);
  // The part of Finish that can fail.
  absl::Status WriteAndRename(absl::Span<const ShardReport> reports);
  absl::Status CheckOfThisRun(const std::string& name) const;
  bool IsKept(const FoundCheckpoint& old) const;
  void RemoveReplaced();
  // Removes old checkpoints of this run beyond SaveOptions::keep.
  void Prune();
  // Removes an old checkpoint, with a warning if it is not this run's or cannot be removed.
  void Discard(const FoundCheckpoint& old);
  // Calls the hook of the options, if there is one, with a description of the change.
  void BeforeChange(absl::string_view what) const;
  // Adds an error to the warnings.
  void WarnIfError(const absl::Status& status);

  const CheckpointContents contents_;
  const SaveOptions options_;
  const std::string final_name_;             // of this checkpoint
  const std::string temporary_name_;         // while it is written
  const std::string replaced_name_;          // of the former checkpoint of the same step
  std::optional<const Folder> checkpoints_;  // all of them; set by Prepare
  std::optional<const Folder> temporary_;    // this one; set by Prepare
  FileDescriptor lock_;
  bool renamed_ = false;
  SavedCheckpoint saved_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_SAVE_CHECKPOINT_H_
