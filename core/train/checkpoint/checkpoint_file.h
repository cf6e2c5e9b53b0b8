// Writes the files of a checkpoint: each with its checksum, and synced to the disk.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_CHECKPOINT_FILE_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_CHECKPOINT_FILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/posix/folder.h"
#include "core/train/checkpoint/checksum.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/manifest.h"

namespace tessera {

struct WriteOptions {
  // The most bytes of state that are read from the engine at once, rounded down to a multiple of 8,
  // so that no element is split. This is also the memory that a save needs.
  int64_t chunk_bytes = int64_t{4} << 20;
  // If set, called with a description before each change on the disk. Tests end the process there.
  std::function<void(absl::string_view)> before_change;
};

// A new file of a checkpoint, written from its start to its end. Returns errors with the file's
// path: ResourceExhausted for a full disk. One thread at a time.
class CheckpointFile {
 public:
  // Returns AlreadyExists if the folder has an entry of this name.
  static absl::StatusOr<CheckpointFile> Create(const Folder& folder, const std::string& name,
                                               const WriteOptions& options);

  absl::Status Append(absl::Span<const char> bytes);
  // Syncs the contents to the disk, and returns the file's record in the manifest. Call it once.
  absl::StatusOr<Manifest::File> Finish();

 private:
  CheckpointFile(std::unique_ptr<DurableWriter> writer, const std::string& name,
                 const WriteOptions& options)
      : writer_(std::move(writer)), record_{name, 0, ""}, before_change_(options.before_change) {}

  void BeforeChange(absl::string_view what) const;

  std::unique_ptr<DurableWriter> writer_;
  Checksum checksum_;
  Manifest::File record_;
  std::function<void(absl::string_view)> before_change_;
};

// Writes a file with these contents, and returns its record in the manifest.
absl::StatusOr<Manifest::File> WriteTextFile(const Folder& folder, const std::string& name,
                                             absl::string_view text, const WriteOptions& options);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_CHECKPOINT_FILE_H_
