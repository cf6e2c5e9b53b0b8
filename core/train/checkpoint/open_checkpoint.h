// Reads checkpoints. All files are checked before any state is returned.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_OPEN_CHECKPOINT_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_OPEN_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/posix/folder.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/manifest.h"
#include "core/train/checkpoint/state_entry.h"

namespace tessera {

struct OpenOptions {
  // Reads every file once and compares its checksum. If many ranks open one checkpoint, rank 0 does
  // this and sends the folder's name to the others, which need not do it again.
  bool verify_checksums = true;
};

// One checkpoint. Its files stay readable after it is removed (on a local file system).
// Thread safety: immutable; ReadShard may be called from several threads concurrently.
class Checkpoint {
 public:
  // Opens a checkpoint's own folder. Returns NotFound if there is no such folder, InvalidArgument
  // if it is no checkpoint, Unimplemented for an unknown version, DataLoss if a file is missing,
  // truncated or changed, and PermissionDenied if the folder or a file is a link of another user.
  // The message names the folder, the file and the fault.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(absl::string_view folder,
                                                          const OpenOptions& options = {});

  const std::string& folder() const { return folder_; }
  int64_t step() const { return manifest_.step; }
  // The position in the data: the rows that training had taken, and the tokens of each. Checkpoints
  // of version 2 have batches() instead, the number of global batches, and no sequence (0).
  int64_t rows() const { return manifest_.rows; }
  int64_t sequence() const { return manifest_.sequence; }
  int64_t batches() const { return manifest_.batches; }
  // The version of the shapes of the model's states.
  int64_t state_version() const { return manifest_.state_version; }
  // The fingerprint of the training data (dataset.h); "" in some checkpoints of version 2.
  const std::string& data() const { return manifest_.data; }
  // The identity of the run that saved it (core/train/run_identity.h); "" in some checkpoints of
  // version 2.
  const std::string& run() const { return manifest_.run; }
  const std::string& plan() const { return plan_; }
  const std::string& config() const { return config_; }
  // The states, in the order in which they were saved.
  const std::vector<StateEntry>& state() const { return manifest_.state; }

  // Returns the state of this path, which is valid as long as this object, or NotFound.
  absl::StatusOr<const StateEntry*> Find(absl::string_view path) const;

  // Fills `out` with the elements of a shard of the state, one after another, row-major in its box.
  // The shard need not be one of those in which the checkpoint is saved. Reads the bytes of these
  // elements only. Returns NotFound if there is no such state, and OutOfRange if the shard exceeds
  // the state or `out` has another size.
  absl::Status ReadShard(absl::string_view path, const StateShard& shard,
                         absl::Span<char> out) const;

 private:
  explicit Checkpoint(std::string folder) : folder_(std::move(folder)) {}

  absl::Status Load(const OpenOptions& options);
  absl::StatusOr<int> IndexOf(absl::string_view path) const;

  const std::string folder_;
  Manifest manifest_;
  std::vector<std::unique_ptr<FileReader>> files_;       // in the order of manifest_.files
  std::vector<std::vector<int64_t>> offsets_;            // of manifest_.shards in their files
  absl::flat_hash_map<std::string, int> state_of_path_;  // index in manifest_.state
  std::string plan_;
  std::string config_;
};

struct OpenedCheckpoint {
  std::unique_ptr<Checkpoint> checkpoint;
  // For each newer checkpoint that could not be used, one line with its folder and the reason.
  std::vector<std::string> skipped;
  std::vector<std::string> damaged;  // the folders of those that are damaged
};

// Opens a checkpoint's own folder, or the newest complete checkpoint of a run's folder (or of the
// folder "checkpoints" in it). Incomplete and corrupt checkpoints are skipped. Returns NotFound if
// there is no such folder or the run has no checkpoint yet, DataLoss if none of its checkpoints is
// complete, and InvalidArgument if the folder is neither a checkpoint nor a run. Returns
// Unimplemented if the newest checkpoint has a version that is not read: such a checkpoint is not
// skipped.
absl::StatusOr<OpenedCheckpoint> OpenCheckpoint(absl::string_view folder,
                                                const OpenOptions& options = {});

// Returns OK if a folder has a valid manifest (or one of a version that is not read) and all files
// have the sizes that it lists. Does not compare checksums of files. Otherwise returns the error:
// that of damage (IsDamage), or another one if the checkpoint cannot be read now. A path may lead
// there by a link (Folder::Open).
absl::Status CheckComplete(const Folder& checkpoint);
absl::Status CheckComplete(const std::string& checkpoint);

// Returns the identity of the run that has saved a checkpoint, as its manifest states it, or the
// error of reading the manifest.
absl::StatusOr<std::string> RunThatSaved(const Folder& checkpoint);
// Does the same for a checkpoint that is complete; else returns the error of CheckComplete, or
// Unimplemented for one of a version that is not read.
absl::StatusOr<std::string> RunOfComplete(const Folder& checkpoint);

// Returns whether an error of opening a checkpoint's folder means that it is damaged. Another
// error, such as a lack of permission, may pass.
bool IsDamage(const absl::Status& error);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_OPEN_CHECKPOINT_H_
