#include "core/train/checkpoint/open_checkpoint.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/checksum.h"
#include "core/train/checkpoint/locate_shards.h"
#include "core/train/checkpoint/strict_json.h"

namespace tessera {
namespace {

constexpr int64_t kVerifyBytes = int64_t{4} << 20;  // read at once

absl::Status NoCheckpointError() {
  return absl::InvalidArgumentError(
      absl::StrCat("this is no checkpoint, which would have a ", kManifestFile,
                   ", and no run, which would have a folder ", kCheckpointsName));
}

absl::StatusOr<Folder> OpenCheckpointFolder(const std::string& path) {
  absl::StatusOr<Folder> folder = Folder::Open(path);
  if (absl::IsFailedPrecondition(folder.status())) return NoCheckpointError();  // it is a file
  return folder;
}

absl::StatusOr<Manifest> ReadManifest(const Folder& folder) {
  const absl::StatusOr<std::unique_ptr<FileReader>> file = FileReader::Open(folder, kManifestFile);
  if (absl::IsNotFound(file.status())) return NoCheckpointError();
  RETURN_IF_ERROR(file.status());
  // Reads one byte more than the bound, which is enough for ParseManifest to reject the text.
  ASSIGN_OR_RETURN(const std::string text,
                   (*file)->ReadStart(std::min((*file)->bytes(), kMaxTextBytes + 1)));
  ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(text));
  const int64_t step = StepOfFolder(folder.path());
  if (step >= 0 && manifest.step != step) {
    return absl::DataLossError(absl::StrCat("the manifest is of step ", manifest.step,
                                            ", but the folder's name has step ", step));
  }
  return manifest;
}

absl::StatusOr<std::unique_ptr<FileReader>> OpenFile(const Folder& folder,
                                                     const Manifest::File& file) {
  absl::StatusOr<std::unique_ptr<FileReader>> reader = FileReader::Open(folder, file.name);
  if (!reader.ok()) {
    if (!absl::IsNotFound(reader.status())) return reader.status();
    return absl::DataLossError(absl::StrCat("the file ", file.name, " is missing"));
  }
  if ((*reader)->bytes() != file.bytes) {
    return absl::DataLossError(absl::StrCat("the file ", file.name, " has ", (*reader)->bytes(),
                                            " bytes, and should have ", file.bytes));
  }
  return reader;
}

absl::Status VerifyChecksum(const FileReader& reader, const Manifest::File& file) {
  Checksum checksum;
  std::vector<char> buffer(std::min(kVerifyBytes, file.bytes));
  for (int64_t offset = 0; offset < file.bytes; offset += kVerifyBytes) {
    const absl::Span<char> chunk =
        absl::MakeSpan(buffer).first(std::min(kVerifyBytes, file.bytes - offset));
    RETURN_IF_ERROR(reader.Read(offset, chunk));
    checksum.Update(chunk);
  }
  if (checksum.Hex() == file.checksum) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the file ", file.name, " has changed: its XXH3-128 is ",
                                          checksum.Hex(), ", and should be ",
                                          Quote(file.checksum)));
}

absl::StatusOr<std::string> ReadText(const Manifest& manifest,
                                     absl::Span<const std::unique_ptr<FileReader>> files,
                                     const std::string& name) {
  for (size_t i = 0; i < files.size(); ++i) {
    if (manifest.files[i].name != name) continue;
    if (files[i]->bytes() <= kMaxTextBytes) return files[i]->ReadStart(files[i]->bytes());
    return absl::DataLossError(absl::StrCat("the file ", name, " has ", files[i]->bytes(),
                                            " bytes, and at most ", kMaxTextBytes,
                                            " are possible"));
  }
  return absl::DataLossError(absl::StrCat("the file ", name, " is not listed"));
}

// Returns the folder of checkpoints in a run's folder, or `folder` itself if it is a folder of
// checkpoints. Returns "" for a checkpoint's own folder and for any other path.
std::string FindCheckpointsFolder(absl::string_view folder) {
  if (folder.empty() || Exists(absl::StrCat(folder, "/", kManifestFile))) return "";
  std::string below = CheckpointsFolder(folder);
  if (Exists(below)) return below;
  std::string itself(absl::StripSuffix(folder, "/"));
  const bool named = itself == "checkpoints" || absl::EndsWith(itself, "/checkpoints");
  return named && Exists(itself) ? itself : "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(absl::string_view folder,
                                                             const OpenOptions& options) {
  std::string path(folder);
  if (!Exists(path)) {
    return absl::NotFoundError(absl::StrCat(folder, ": there is no such folder"));
  }
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint(std::move(path)));
  const absl::Status status = checkpoint->Load(options);
  if (status.ok()) return checkpoint;
  return absl::Status(status.code(), absl::StrCat(folder, ": ", status.message()));
}

absl::Status Checkpoint::Load(const OpenOptions& options) {
  ASSIGN_OR_RETURN(const Folder folder, OpenCheckpointFolder(folder_));
  ASSIGN_OR_RETURN(manifest_, ReadManifest(folder));
  // Checks all sizes before any checksum, because that is cheap.
  for (const Manifest::File& file : manifest_.files) {
    ASSIGN_OR_RETURN(files_.emplace_back(), OpenFile(folder, file));
  }
  for (size_t i = 0; options.verify_checksums && i < files_.size(); ++i) {
    RETURN_IF_ERROR(VerifyChecksum(*files_[i], manifest_.files[i]));
  }
  ASSIGN_OR_RETURN(offsets_, LocateShards(manifest_, files_));
  for (size_t i = 0; i < manifest_.state.size(); ++i) {
    state_of_path_[manifest_.state[i].path] = static_cast<int>(i);
  }
  ASSIGN_OR_RETURN(plan_, ReadText(manifest_, files_, manifest_.plan_file));
  ASSIGN_OR_RETURN(config_, ReadText(manifest_, files_, manifest_.config_file));
  return absl::OkStatus();
}

absl::StatusOr<int> Checkpoint::IndexOf(absl::string_view path) const {
  const auto state = state_of_path_.find(path);
  if (state != state_of_path_.end()) return state->second;
  const std::string first = manifest_.state.empty() ? ""
                                                    : absl::StrCat(", of which the first is ",
                                                                   Quote(manifest_.state[0].path));
  return absl::NotFoundError(absl::StrCat(folder_, ": there is no state ", Quote(path),
                                          " in this checkpoint; it has ", manifest_.state.size(),
                                          first));
}

absl::StatusOr<const StateEntry*> Checkpoint::Find(absl::string_view path) const {
  ASSIGN_OR_RETURN(const int index, IndexOf(path));
  return &manifest_.state[index];
}

absl::Status Checkpoint::ReadShard(absl::string_view path, const StateShard& shard,
                                   absl::Span<char> out) const {
  ASSIGN_OR_RETURN(const int index, IndexOf(path));
  const StateEntry& entry = manifest_.state[index];
  const int64_t element = SizeOf(entry.type.dtype);
  const absl::Status inside = CheckShard(shard, entry.type.shape);
  if (!inside.ok() || static_cast<int64_t>(out.size()) != shard.size() * element) {
    return absl::OutOfRangeError(absl::StrCat(
        folder_, ": cannot read ", out.size(), " bytes of ", Quote(path), ": ",
        inside.ok() ? absl::StrCat("that shard has ", shard.size(), " elements of ", element)
                    : std::string(inside.message())));
  }
  int64_t read = 0;
  for (size_t i = 0; i < manifest_.shards[index].size(); ++i) {
    const FileReader& file = *files_[manifest_.shard_files[index][i]];
    SharedRuns runs(manifest_.shards[index][i], shard);
    while (const std::optional<SharedRun> run = runs.Next()) {
      RETURN_IF_ERROR(file.Read(offsets_[index][i] + run->first * element,
                                out.subspan(run->second * element, run->count * element)));
      read += run->count;
    }
    if (read == shard.size()) break;
  }
  if (read == shard.size()) return absl::OkStatus();
  // The manifest's shards hold each element once.
  return absl::InternalError(absl::StrCat(folder_, ": the shards of ", Quote(path), " hold ", read,
                                          " of the ", shard.size(), " elements of ",
                                          ShardToString(shard)));
}

absl::StatusOr<std::string> RunOfComplete(const Folder& checkpoint) {
  ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(checkpoint));
  for (const Manifest::File& file : manifest.files) {
    RETURN_IF_ERROR(OpenFile(checkpoint, file).status());
  }
  return std::move(manifest.run);
}

absl::Status CheckComplete(const Folder& checkpoint) {
  const absl::Status status = RunOfComplete(checkpoint).status();
  return absl::IsUnimplemented(status) ? absl::OkStatus() : status;
}

absl::Status CheckComplete(const std::string& checkpoint) {
  ASSIGN_OR_RETURN(const Folder folder, OpenCheckpointFolder(checkpoint));
  return CheckComplete(folder);
}

absl::StatusOr<std::string> RunThatSaved(const Folder& checkpoint) {
  ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(checkpoint));
  return std::move(manifest.run);
}

bool IsDamage(const absl::Status& error) {
  return absl::IsDataLoss(error) || absl::IsInvalidArgument(error);
}

absl::StatusOr<OpenedCheckpoint> OpenCheckpoint(absl::string_view folder,
                                                const OpenOptions& options) {
  OpenedCheckpoint opened;
  const std::string checkpoints = FindCheckpointsFolder(folder);
  if (checkpoints.empty()) {
    ASSIGN_OR_RETURN(opened.checkpoint, Checkpoint::Open(folder, options));
    return opened;
  }
  ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, ListCheckpoints(checkpoints));
  for (const FoundCheckpoint& candidate : found) {
    absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint =
        Checkpoint::Open(candidate.folder, options);
    if (checkpoint.ok()) {
      opened.checkpoint = *std::move(checkpoint);
      return opened;
    }
    if (absl::IsUnimplemented(checkpoint.status())) return checkpoint.status();
    opened.skipped.emplace_back(checkpoint.status().message());
    if (IsDamage(checkpoint.status())) opened.damaged.push_back(candidate.folder);
  }
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat(checkpoints, ": there is no checkpoint in it yet"));
  }
  const size_t shown = std::min<size_t>(opened.skipped.size(), 3);
  return absl::DataLossError(
      absl::StrCat(checkpoints, ": none of ", found.size(), " checkpoints is complete: ",
                   absl::StrJoin(absl::MakeSpan(opened.skipped).first(shown), "; "),
                   shown < opened.skipped.size() ? "; ..." : ""));
}

}  // namespace tessera
