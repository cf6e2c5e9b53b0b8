#include "core/train/checkpoint/save_checkpoint.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/checksum.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/manifest.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/state_files.h"
#include "core/train/checkpoint/strict_json.h"

namespace tessera {
namespace {

// Rounds down to a multiple of the largest element, 8 bytes.
int64_t RoundToElements(int64_t chunk_bytes) { return std::max<int64_t>(chunk_bytes / 8 * 8, 8); }

// Calls `visit(entry, byte_offset, bytes)` for each chunk of a file, in order.
template <typename Visit>
absl::Status ForEachChunk(const StateFile& file, int64_t chunk_bytes, Visit visit) {
  for (size_t i = 0; i < file.entries.size(); ++i) {
    const int64_t bytes = file.header.tensors[i].end - file.header.tensors[i].begin;
    for (int64_t offset = 0; offset < bytes; offset += chunk_bytes) {
      RETURN_IF_ERROR(visit(file.entries[i], offset, std::min(chunk_bytes, bytes - offset)));
    }
  }
  return absl::OkStatus();
}

// The manifest of a checkpoint, with `files` for its list of files.
Manifest MakeManifest(const CheckpointContents& contents, const std::vector<StateFile>& state_files,
                      std::vector<Manifest::File> files) {
  Manifest manifest;
  manifest.step = contents.step;
  manifest.batches = contents.batches;
  manifest.state_version = contents.state_version;
  manifest.plan_file = kPlanFile;
  manifest.config_file = kConfigFile;
  manifest.data = contents.data;
  manifest.files = std::move(files);
  manifest.state = contents.state;
  manifest.state_files.resize(contents.state.size());
  for (const StateFile& file : state_files) {
    for (int entry : file.entries) manifest.state_files[entry] = file.name;
  }
  return manifest;
}

absl::Status CheckLength(absl::string_view name, size_t bytes) {
  if (bytes <= static_cast<size_t>(kMaxTextBytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " would have ", bytes, " bytes, and at most ", kMaxTextBytes, " can be read again"));
}

// The files that the state goes to, if the contents can be saved and read again.
absl::StatusOr<std::vector<StateFile>> ArrangeContents(const CheckpointContents& contents) {
  if (std::min(contents.step, contents.batches) < 0 ||
      std::max(contents.step, contents.batches) > kMaxSteps) {
    return absl::InvalidArgumentError(
        absl::StrCat("step ", contents.step, " after ", contents.batches,
                     " batches is not possible: both must be from 0 to ", kMaxSteps));
  }
  ASSIGN_OR_RETURN(std::vector<StateFile> files, ArrangeStateFiles(contents.state));
  // Records of the greatest length.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const std::string checksum = ChecksumOf("");
  std::vector<Manifest::File> records = {{kPlanFile, kMost, checksum},
                                         {kConfigFile, kMost, checksum}};
  for (const StateFile& file : files) {
    RETURN_IF_ERROR(
        CheckLength(absl::StrCat("the header of ", file.name), file.header.bytes.size()));
    records.push_back({file.name, kMost, checksum});
  }
  RETURN_IF_ERROR(CheckLength(kPlanFile, contents.plan.size()));
  RETURN_IF_ERROR(CheckLength(kConfigFile, contents.config.size()));
  const Manifest manifest = MakeManifest(contents, files, std::move(records));
  RETURN_IF_ERROR(CheckLength(kManifestFile, ManifestToText(manifest).size()));
  return files;
}

// One save.
class Saver {
 public:
  Saver(std::string folder, const CheckpointContents& contents, const ReadState& read_state,
        const SaveOptions& options)
      : folder_(std::move(folder)),
        final_(absl::StrCat(folder_, "/", StepFolderName(contents.step))),
        temporary_(InFolder(kTemporaryPrefix, final_)),
        replaced_(InFolder(kReplacedPrefix, final_)),
        contents_(contents),
        read_state_(read_state),
        options_(options) {}

  absl::StatusOr<SavedCheckpoint> Run() {
    ASSIGN_OR_RETURN(const std::vector<StateFile> files, ArrangeContents(contents_));
    BeforeChange("make folders");
    RETURN_IF_ERROR(MakeFolders(folder_));
    ASSIGN_OR_RETURN(const std::unique_ptr<FolderLock> lock, FolderLock::Take(folder_));
    RETURN_IF_ERROR(CleanUp());
    const absl::Status status = WriteAndRename(files);
    if (!status.ok()) {
      // The first error is the one to report. If this fails too, the next save removes the folder.
      RemoveTree(temporary_).IgnoreError();
      return absl::Status(status.code(),
                          absl::StrCat(status.message(), "; earlier checkpoints are as they were"));
    }
    BeforeChange("sync the folder of checkpoints");
    RETURN_IF_ERROR(SyncFolder(folder_));
    saved_.folder = final_;
    RemoveReplaced();
    Prune();
    return std::move(saved_);
  }

 private:
  // The path of a checkpoint's folder with a prefix before its name.
  std::string InFolder(absl::string_view prefix, absl::string_view path) const {
    return absl::StrCat(folder_, "/", prefix, path.substr(folder_.size() + 1));
  }

  void BeforeChange(absl::string_view what) const {
    if (options_.before_change) options_.before_change(what);
  }

  void WarnIfError(const absl::Status& status) {
    if (!status.ok()) saved_.warnings.emplace_back(status.message());
  }

  // Removes the remains of killed saves, and restores a checkpoint that one of them was replacing.
  absl::Status CleanUp() {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(folder_));
    for (const std::string& name : names) {
      const std::string path = absl::StrCat(folder_, "/", name);
      absl::string_view replaced = name;
      if (absl::StartsWith(name, kTemporaryPrefix)) {
        BeforeChange(absl::StrCat("remove ", name));
        WarnIfError(RemoveTree(path));
      } else if (absl::ConsumePrefix(&replaced, kReplacedPrefix)) {
        BeforeChange(absl::StrCat("settle ", name));
        const std::string original = absl::StrCat(folder_, "/", replaced);
        RETURN_IF_ERROR(Exists(original) ? Discard(path) : RenameFolder(path, original));
      }
    }
    return absl::OkStatus();
  }

  absl::Status WriteAndRename(const std::vector<StateFile>& files) {
    BeforeChange("make the temporary folder");
    RETURN_IF_ERROR(MakeFolders(temporary_));
    std::vector<Manifest::File> records;
    for (const StateFile& file : files) {
      ASSIGN_OR_RETURN(records.emplace_back(), WriteState(file));
    }
    ASSIGN_OR_RETURN(records.emplace_back(), WriteText(kPlanFile, contents_.plan));
    ASSIGN_OR_RETURN(records.emplace_back(), WriteText(kConfigFile, contents_.config));
    const Manifest manifest = MakeManifest(contents_, files, std::move(records));
    RETURN_IF_ERROR(WriteText(kManifestFile, ManifestToText(manifest)).status());
    BeforeChange("sync the temporary folder");
    RETURN_IF_ERROR(SyncFolder(temporary_));
    if (Exists(final_)) {
      BeforeChange("replace the checkpoint of this step");
      return ReplaceFolder(temporary_, final_, replaced_);
    }
    BeforeChange("rename the temporary folder");
    return RenameFolder(temporary_, final_);
  }

  // Writes a file by `write(append)`, where append takes a span and returns a Status.
  template <typename Write>
  absl::StatusOr<Manifest::File> WriteFile(absl::string_view name, Write write) {
    BeforeChange(absl::StrCat("create ", name));
    ASSIGN_OR_RETURN(const std::unique_ptr<DurableWriter> writer,
                     DurableWriter::Create(absl::StrCat(temporary_, "/", name)));
    Checksum checksum;
    Manifest::File file;
    file.name = absl::StrCat(name);
    RETURN_IF_ERROR(write([&](absl::Span<const char> bytes) {
      BeforeChange(absl::StrCat("write ", name));
      checksum.Update(bytes);
      file.bytes += static_cast<int64_t>(bytes.size());
      return writer->Write(bytes);
    }));
    BeforeChange(absl::StrCat("sync ", name));
    RETURN_IF_ERROR(writer->Finish());
    file.checksum = checksum.Hex();
    saved_.bytes += file.bytes;
    return file;
  }

  absl::StatusOr<Manifest::File> WriteText(absl::string_view name, absl::string_view text) {
    return WriteFile(name, [&](auto append) { return append(text); });
  }

  absl::StatusOr<Manifest::File> WriteState(const StateFile& file) {
    const int64_t chunk_bytes = RoundToElements(options_.chunk_bytes);
    return WriteFile(file.name, [&](auto append) {
      RETURN_IF_ERROR(append(file.header.bytes));
      buffer_.resize(std::min(chunk_bytes, file.header.data_bytes));
      return ForEachChunk(file, chunk_bytes, [&](int entry, int64_t offset, int64_t bytes) {
        const absl::Span<char> chunk = absl::MakeSpan(buffer_).first(bytes);
        const absl::Status status = read_state_(entry, offset, chunk);
        if (!status.ok()) {
          return absl::Status(
              status.code(),
              absl::StrCat("cannot read bytes ", offset, " to ", offset + bytes, " of ",
                           Quote(contents_.state[entry].path), ": ", status.message()));
        }
        return append(chunk);
      });
    });
  }

  // Renames it first: a checkpoint that is half removed must not have a checkpoint's name.
  absl::Status Discard(const std::string& path) const {
    const std::string temporary = InFolder(kTemporaryPrefix, path);
    BeforeChange("rename an old checkpoint");
    RETURN_IF_ERROR(RenameFolder(path, temporary));
    BeforeChange("remove an old checkpoint");
    return RemoveTree(temporary);
  }

  // Only after the new one is on the disk.
  void RemoveReplaced() {
    for (const std::string& path : {temporary_, replaced_}) {
      if (!Exists(path)) continue;
      BeforeChange("remove what was replaced");
      WarnIfError(RemoveTree(path));
    }
  }

  void Prune() {
    if (options_.keep <= 0) return;
    const absl::StatusOr<std::vector<FoundCheckpoint>> found = ListCheckpoints(folder_);
    if (!found.ok()) return WarnIfError(found.status());
    int64_t kept = 1;  // the new one, whatever its step
    for (const FoundCheckpoint& old : *found) {
      if (old.folder == final_) continue;
      if (kept >= options_.keep) {
        WarnIfError(Discard(old.folder));
      } else if (LooksComplete(old.folder)) {
        ++kept;
      }
    }
  }

  const std::string folder_;     // of all checkpoints
  const std::string final_;      // of this one
  const std::string temporary_;  // this one while it is written
  const std::string replaced_;   // the former checkpoint of the same step
  const CheckpointContents& contents_;
  const ReadState& read_state_;
  const SaveOptions& options_;
  SavedCheckpoint saved_;
  std::vector<char> buffer_;
};

}  // namespace

absl::Status CheckContents(const CheckpointContents& contents) {
  return ArrangeContents(contents).status();
}

absl::StatusOr<std::vector<StateChunk>> ChunksInOrder(const std::vector<StateEntry>& state,
                                                      int64_t chunk_bytes) {
  ASSIGN_OR_RETURN(const std::vector<StateFile> files, ArrangeStateFiles(state));
  std::vector<StateChunk> chunks;
  for (const StateFile& file : files) {
    RETURN_IF_ERROR(ForEachChunk(file, RoundToElements(chunk_bytes),
                                 [&](int entry, int64_t offset, int64_t bytes) {
                                   chunks.push_back({entry, offset, bytes});
                                   return absl::OkStatus();
                                 }));
  }
  return chunks;
}

absl::StatusOr<SavedCheckpoint> SaveCheckpoint(absl::string_view run_folder,
                                               const CheckpointContents& contents,
                                               const ReadState& read_state,
                                               const SaveOptions& options) {
  if (run_folder.empty()) {
    return absl::InvalidArgumentError("cannot save a checkpoint: the run's folder has no name");
  }
  const std::string folder = CheckpointsFolder(run_folder);
  absl::StatusOr<SavedCheckpoint> saved = Saver(folder, contents, read_state, options).Run();
  if (saved.ok()) return saved;
  return absl::Status(saved.status().code(),
                      absl::StrCat("cannot save the checkpoint of step ", contents.step, ": ",
                                   saved.status().message()));
}

}  // namespace tessera
