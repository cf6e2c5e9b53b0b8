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
#include "core/train/checkpoint/safetensors.h"
#include "core/train/checkpoint/strict_json.h"

namespace tessera {
namespace {

constexpr int64_t kVerifyBytes = int64_t{4} << 20;  // read at once

absl::StatusOr<std::string> ReadStart(const FileReader& file, int64_t bytes) {
  std::string start(static_cast<size_t>(bytes), '\0');
  RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(&start[0], start.size())));
  return start;
}

absl::StatusOr<Manifest> ReadManifest(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kManifestFile);
  if (!Exists(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("this is no checkpoint, which would have a ", kManifestFile,
                     ", and no run, which would have a folder checkpoints"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<FileReader> file, FileReader::Open(path));
  // One byte above the bound is enough for ParseManifest to refuse it.
  ASSIGN_OR_RETURN(const std::string text,
                   ReadStart(*file, std::min(file->bytes(), kMaxTextBytes + 1)));
  ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(text));
  const int64_t step = StepOfFolder(folder);
  if (step >= 0 && manifest.step != step) {
    return absl::DataLossError(absl::StrCat("the manifest is of step ", manifest.step,
                                            ", but the folder's name has step ", step));
  }
  return manifest;
}

absl::StatusOr<std::unique_ptr<FileReader>> OpenFile(const std::string& folder,
                                                     const Manifest::File& file) {
  absl::StatusOr<std::unique_ptr<FileReader>> reader =
      FileReader::Open(absl::StrCat(folder, "/", file.name));
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

// The folder of checkpoints in a run's folder, or `folder` itself if it is one; empty for a
// checkpoint's own folder and for any other path.
std::string FindCheckpointsFolder(absl::string_view folder) {
  if (folder.empty() || Exists(absl::StrCat(folder, "/", kManifestFile))) return "";
  std::string below = CheckpointsFolder(folder);
  if (Exists(below)) return below;
  std::string itself(absl::StripSuffix(folder, "/"));
  const bool named = itself == "checkpoints" || absl::EndsWith(itself, "/checkpoints");
  return named && Exists(itself) ? itself : "";
}

struct TensorsOfFile {
  std::vector<SafetensorsTensor> tensors;
  int64_t data_offset = 0;
};

absl::StatusOr<TensorsOfFile> ReadTensors(const FileReader& file) {
  TensorsOfFile result;
  ASSIGN_OR_RETURN(const std::string prefix,
                   ReadStart(file, std::min(kSafetensorsPrefixBytes, file.bytes())));
  ASSIGN_OR_RETURN(const int64_t json_bytes, SafetensorsJsonBytes(prefix, file.bytes()));
  if (json_bytes > kMaxTextBytes) {
    return absl::DataLossError(absl::StrCat("its header has ", json_bytes, " bytes, and at most ",
                                            kMaxTextBytes, " are possible"));
  }
  result.data_offset = kSafetensorsPrefixBytes + json_bytes;
  ASSIGN_OR_RETURN(const std::string start, ReadStart(file, result.data_offset));
  ASSIGN_OR_RETURN(result.tensors,
                   ParseSafetensorsJson(absl::string_view(start).substr(kSafetensorsPrefixBytes),
                                        file.bytes() - result.data_offset));
  return result;
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
  ASSIGN_OR_RETURN(manifest_, ReadManifest(folder_));
  RETURN_IF_ERROR(OpenFiles(options));
  RETURN_IF_ERROR(LocateTensors());
  ASSIGN_OR_RETURN(plan_, ReadText(manifest_.plan_file));
  ASSIGN_OR_RETURN(config_, ReadText(manifest_.config_file));
  return absl::OkStatus();
}

absl::Status Checkpoint::OpenFiles(const OpenOptions& options) {
  // All sizes before any checksum: the cheap check comes first.
  for (const Manifest::File& file : manifest_.files) {
    ASSIGN_OR_RETURN(std::unique_ptr<FileReader> reader, OpenFile(folder_, file));
    files_.push_back(std::move(reader));
  }
  for (size_t i = 0; options.verify_checksums && i < files_.size(); ++i) {
    RETURN_IF_ERROR(VerifyChecksum(*files_[i], manifest_.files[i]));
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::LocateTensors() {
  absl::flat_hash_map<absl::string_view, int> file_of_name;
  for (size_t i = 0; i < files_.size(); ++i) {
    file_of_name[manifest_.files[i].name] = static_cast<int>(i);
  }
  // By file, then by name.
  std::vector<absl::flat_hash_map<std::string, SafetensorsTensor>> tensors(files_.size());
  std::vector<int64_t> data_offsets(files_.size(), -1);  // -1: not read yet
  for (size_t i = 0; i < manifest_.state.size(); ++i) {
    const StateEntry& entry = manifest_.state[i];
    const std::string& file_name = manifest_.state_files[i];
    const auto found = file_of_name.find(file_name);
    if (found == file_of_name.end()) {
      return absl::DataLossError(absl::StrCat("the state ", Quote(entry.path), " is in the file ",
                                              Quote(file_name), ", which is not listed"));
    }
    const int file = found->second;
    if (data_offsets[file] < 0) {
      absl::StatusOr<TensorsOfFile> read = ReadTensors(*files_[file]);
      if (!read.ok()) {
        // Also for an unknown dtype: Tessera writes none.
        return absl::DataLossError(
            absl::StrCat("the file ", file_name, ": ", read.status().message()));
      }
      data_offsets[file] = read->data_offset;
      for (SafetensorsTensor& tensor : read->tensors) {
        std::string name = tensor.name;
        tensors[file].emplace(std::move(name), std::move(tensor));
      }
    }
    const auto tensor = tensors[file].find(entry.path);
    if (tensor == tensors[file].end() || tensor->second.type != entry.type) {
      return absl::DataLossError(absl::StrCat(
          "the file ", file_name, " has ",
          tensor == tensors[file].end() ? "no tensor" : TypeToString(tensor->second.type), " ",
          Quote(entry.path), ", and should have a ", TypeToString(entry.type)));
    }
    tensors_[entry.path] = {static_cast<int>(i), file, data_offsets[file] + tensor->second.begin,
                            tensor->second.end - tensor->second.begin};
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Checkpoint::ReadText(const std::string& name) const {
  for (const std::unique_ptr<FileReader>& file : files_) {
    if (!absl::EndsWith(file->path(), absl::StrCat("/", name))) continue;
    if (file->bytes() > kMaxTextBytes) {
      return absl::DataLossError(absl::StrCat("the file ", name, " has ", file->bytes(),
                                              " bytes, and at most ", kMaxTextBytes,
                                              " are possible"));
    }
    return ReadStart(*file, file->bytes());
  }
  return absl::DataLossError(absl::StrCat("the file ", name, " is not listed"));
}

absl::StatusOr<const Checkpoint::TensorLocation*> Checkpoint::FindTensor(
    absl::string_view path) const {
  const auto tensor = tensors_.find(path);
  if (tensor != tensors_.end()) return &tensor->second;
  const std::string first =
      state().empty() ? "" : absl::StrCat(", of which the first is ", Quote(state()[0].path));
  return absl::NotFoundError(absl::StrCat(folder_, ": there is no state ", Quote(path),
                                          " in this checkpoint; it has ", state().size(), first));
}

absl::StatusOr<const StateEntry*> Checkpoint::Find(absl::string_view path) const {
  ASSIGN_OR_RETURN(const TensorLocation* tensor, FindTensor(path));
  return &manifest_.state[tensor->entry];
}

absl::Status Checkpoint::ReadRange(absl::string_view path, int64_t byte_offset,
                                   absl::Span<char> out) const {
  ASSIGN_OR_RETURN(const TensorLocation* tensor, FindTensor(path));
  const int64_t bytes = static_cast<int64_t>(out.size());
  if (byte_offset < 0 || bytes > tensor->bytes || byte_offset > tensor->bytes - bytes) {
    return absl::OutOfRangeError(absl::StrCat(folder_, ": cannot read ", bytes, " bytes of ",
                                              Quote(path), " from byte ", byte_offset, ": it has ",
                                              tensor->bytes));
  }
  return files_[tensor->file]->Read(tensor->offset + byte_offset, out);
}

bool LooksComplete(absl::string_view folder) {
  const std::string path(folder);
  const absl::StatusOr<Manifest> manifest = ReadManifest(path);
  if (absl::IsUnimplemented(manifest.status())) return true;
  if (!manifest.ok()) return false;
  return std::all_of(manifest->files.begin(), manifest->files.end(),
                     [&](const Manifest::File& file) { return OpenFile(path, file).ok(); });
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
