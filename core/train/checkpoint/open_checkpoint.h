// Reading checkpoints: everything is checked before anything is handed out.
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
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/manifest.h"
#include "core/train/checkpoint/state_entry.h"

namespace tessera {

struct OpenOptions {
  // Reads every file once and compares its checksum. Where many ranks open one checkpoint, rank 0
  // does this and tells the others which folder it took; they need not do it again.
  bool verify_checksums = true;
};

// One checkpoint. Its files stay readable if it is removed meanwhile (on a local file system).
// Thread safety: immutable; ReadRange may be called from several threads at once.
class Checkpoint {
 public:
  // Opens a checkpoint's own folder. NotFound if there is no such folder, InvalidArgument if it is
  // no checkpoint, Unimplemented for a version that is not known, DataLoss if anything in it is
  // missing, cut or changed. The message names folder, file and what is wrong.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(absl::string_view folder,
                                                          const OpenOptions& options = {});

  const std::string& folder() const { return folder_; }
  int64_t step() const { return manifest_.step; }
  // Position in the data: global batches that training had taken.
  int64_t batches() const { return manifest_.batches; }
  // The fingerprint of the data that it was trained on (dataset.h); "" in old checkpoints.
  const std::string& data() const { return manifest_.data; }
  const std::string& plan() const { return plan_; }
  const std::string& config() const { return config_; }
  // In the order in which it was saved.
  const std::vector<StateEntry>& state() const { return manifest_.state; }

  // NotFound if the checkpoint has no state of this path. Lives as long as this object.
  absl::StatusOr<const StateEntry*> Find(absl::string_view path) const;

  // Fills `out` with bytes [byte_offset, byte_offset + out.size()) of the whole tensor, row-major.
  // NotFound; OutOfRange if the tensor does not have them.
  absl::Status ReadRange(absl::string_view path, int64_t byte_offset, absl::Span<char> out) const;

 private:
  struct Place {
    int entry = 0;  // in manifest_.state
    int file = 0;   // in files_
    int64_t offset = 0;
    int64_t bytes = 0;
  };

  explicit Checkpoint(std::string folder) : folder_(std::move(folder)) {}

  absl::Status Load(const OpenOptions& options);
  absl::Status OpenFiles(const OpenOptions& options);
  absl::Status PlaceTensors();
  absl::StatusOr<std::string> ReadText(const std::string& name) const;
  absl::StatusOr<const Place*> FindPlace(absl::string_view path) const;

  const std::string folder_;
  Manifest manifest_;
  std::vector<std::unique_ptr<FileReader>> files_;  // as in manifest_.files
  absl::flat_hash_map<std::string, Place> places_;  // by path
  std::string plan_;
  std::string config_;
};

struct OpenedCheckpoint {
  std::unique_ptr<Checkpoint> checkpoint;
  // Of each newer checkpoint that could not be used: one line that says which, and why.
  std::vector<std::string> skipped;
};

// Opens a checkpoint's own folder, or the newest whole checkpoint of a run's folder (or of the
// folder "checkpoints" in it). Torn and corrupt ones are passed over. NotFound if there is no such
// folder, or a run has no checkpoint yet; DataLoss if it has, and none is whole; InvalidArgument if
// the folder is neither; Unimplemented, and none is passed over, if a newer Tessera wrote the
// newest.
absl::StatusOr<OpenedCheckpoint> OpenCheckpoint(absl::string_view folder,
                                                const OpenOptions& options = {});

// Whether a folder has a right manifest (or one of a newer Tessera) and all files in their sizes.
// Checksums of files are not compared.
bool LooksWhole(absl::string_view folder);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_OPEN_CHECKPOINT_H_
