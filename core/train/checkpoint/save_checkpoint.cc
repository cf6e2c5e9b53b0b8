#include "core/train/checkpoint/save_checkpoint.h"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checksum.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/remains.h"
#include "core/train/checkpoint/shard_report.h"
#include "core/train/checkpoint/state_files.h"

namespace tessera {
namespace {

// The number of the newest checkpoints that are checked before older ones are removed: a save must
// not take longer the more are kept.
constexpr int kCheckedToKeep = 8;

// Returns the manifest of a checkpoint, without its files and the shards of its states.
Manifest MakeManifest(const CheckpointContents& contents) {
  Manifest manifest;
  manifest.step = contents.step;
  manifest.rows = contents.rows;
  manifest.sequence = contents.sequence;
  manifest.state_version = contents.state_version;
  manifest.plan_file = kPlanFile;
  manifest.config_file = kConfigFile;
  manifest.data = contents.data;
  manifest.run = contents.run;
  manifest.state = contents.state;
  return manifest;
}

// Returns the status with the step that could not be saved in its message.
absl::Status CannotSave(int64_t step, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("cannot save the checkpoint of step ", step, ": ",
                                                  status.message()));
}

// Returns the status of a save that wrote to the temporary folder only. The message adds that
// earlier checkpoints are unchanged.
absl::Status NothingIsLost(const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; earlier checkpoints are as they were"));
}

// Returns the status of a save whose checkpoint has its name, perhaps not yet on the disk. It may
// have replaced one of the same step.
absl::Status NotOnDisk(const absl::Status& status, absl::string_view folder) {
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; ", folder,
                                   " is complete, but a crash of the system may undo it"));
}

// Returns a random suffix for the temporary folder's name, so that a rank of a killed job that
// still writes cannot write to the folder of the next save.
std::string NewSuffix() { return absl::StrFormat("-%08x", std::random_device()()); }

}  // namespace

absl::Status CheckContents(const CheckpointContents& contents) {
  if (contents.step < 0 || contents.step > kMaxSteps) {
    return absl::InvalidArgumentError(
        absl::StrCat("step ", contents.step, " is not possible: it must be from 0 to ", kMaxSteps));
  }
  if (contents.rows < 0 || contents.rows > kMaxRows || contents.sequence < 1 ||
      contents.sequence > kMaxSequence) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a position after ", contents.rows, " rows of ", contents.sequence,
        " tokens is not possible: 0 to ", kMaxRows, " rows of 1 to ", kMaxSequence, " are"));
  }
  RETURN_IF_ERROR(CheckStates(contents.state));
  RETURN_IF_ERROR(CheckTextLength(kPlanFile, contents.plan.size()));
  RETURN_IF_ERROR(CheckTextLength(kConfigFile, contents.config.size()));
  Manifest manifest = MakeManifest(contents);
  // Uses records of the greatest length.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const std::string& name :
       {std::string(kPlanFile), std::string(kConfigFile), StateFileName(kParameterRole, 0, 1)}) {
    manifest.files.push_back({name, kMost, ChecksumOf("")});
  }
  for (const StateEntry& entry : contents.state) {
    manifest.shards.push_back({FullShard(entry.type.shape)});
    manifest.shard_files.push_back({2});
  }
  return CheckTextLength(kManifestFile, ManifestToText(manifest).size());
}

CheckpointSave::CheckpointSave(CheckpointContents contents, const SaveOptions& options)
    : contents_(std::move(contents)),
      options_(options),
      final_name_(StepFolderName(contents_.step)),
      temporary_name_(absl::StrCat(kTemporaryPrefix, final_name_, NewSuffix())),
      replaced_name_(absl::StrCat(kReplacedPrefix, final_name_)) {}

absl::StatusOr<std::unique_ptr<CheckpointSave>> CheckpointSave::Begin(absl::string_view run_folder,
                                                                      CheckpointContents contents,
                                                                      const SaveOptions& options) {
  if (run_folder.empty()) {
    return absl::InvalidArgumentError("cannot save a checkpoint: the run's folder has no name");
  }
  const int64_t step = contents.step;
  absl::Status status = CheckContents(contents);
  if (!status.ok()) return CannotSave(step, status);
  std::unique_ptr<CheckpointSave> save(new CheckpointSave(std::move(contents), options));
  status = save->Prepare(std::string(run_folder));
  if (!status.ok()) return CannotSave(step, status);
  return save;
}

CheckpointSave::~CheckpointSave() {
  // If this fails, the next save removes the folder.
  if (lock_.is_open() && !renamed_) {
    RemoveCheckpointFolder(*checkpoints_, temporary_name_).IgnoreError();
  }
}

absl::Status CheckpointSave::Prepare(const std::string& run_folder) {
  BeforeChange("make folders");
  RETURN_IF_ERROR(MakeFolders(run_folder));
  ASSIGN_OR_RETURN(const Folder run, Folder::Open(run_folder));
  RETURN_IF_ERROR(run.CheckOwner());
  ASSIGN_OR_RETURN(Folder checkpoints, run.OpenOrCreateFolder(kCheckpointsName));
  checkpoints_.emplace(std::move(checkpoints));
  absl::StatusOr<FileDescriptor> lock = checkpoints_->Lock();
  if (absl::IsUnavailable(lock.status())) {
    return absl::UnavailableError(
        absl::StrCat("another process is saving to ", checkpoints_->path()));
  }
  RETURN_IF_ERROR(lock.status());
  lock_ = *std::move(lock);
  ASSIGN_OR_RETURN(saved_.warnings, RemoveRemains(*checkpoints_, options_));
  BeforeChange("make the temporary folder");
  absl::StatusOr<Folder> made = checkpoints_->CreateFolder(temporary_name_);
  if (!made.ok()) return NothingIsLost(made.status());
  temporary_.emplace(*std::move(made));
  return absl::OkStatus();
}

absl::StatusOr<SavedCheckpoint> CheckpointSave::Finish(absl::Span<const ShardReport> reports) {
  const absl::Status status = WriteAndRename(reports);
  if (!status.ok()) {
    return CannotSave(contents_.step, renamed_
                                          ? NotOnDisk(status, checkpoints_->PathOf(final_name_))
                                          : NothingIsLost(status));
  }
  saved_.folder = checkpoints_->PathOf(final_name_);
  RemoveReplaced();
  Prune();
  return std::move(saved_);
}

void CheckpointSave::BeforeChange(absl::string_view what) const {
  if (options_.before_change) options_.before_change(what);
}

void CheckpointSave::WarnIfError(const absl::Status& status) {
  if (!status.ok()) saved_.warnings.emplace_back(status.message());
}

absl::Status CheckpointSave::WriteAndRename(absl::Span<const ShardReport> reports) {
  ASSIGN_OR_RETURN(Manifest manifest, JoinReports(MakeManifest(contents_), reports, *temporary_));
  for (const auto& [name, text] :
       {std::pair(kPlanFile, &contents_.plan), {kConfigFile, &contents_.config}}) {
    ASSIGN_OR_RETURN(manifest.files.emplace_back(),
                     WriteDurableFile(*temporary_, name, *text, options_.before_change));
  }
  const std::string text = ManifestToText(manifest);
  // A checkpoint that could not be opened again is not saved. This also checks the shards of all
  // ranks.
  const absl::Status readable = ParseManifest(text).status();
  if (!readable.ok()) return absl::InvalidArgumentError(readable.message());
  ASSIGN_OR_RETURN(const Manifest::File manifest_file,
                   WriteDurableFile(*temporary_, kManifestFile, text, options_.before_change));
  saved_.bytes = manifest_file.bytes;
  for (const Manifest::File& file : manifest.files) saved_.bytes += file.bytes;
  BeforeChange("sync the temporary folder");
  RETURN_IF_ERROR(temporary_->Sync());
  if (checkpoints_->Has(final_name_)) {
    RETURN_IF_ERROR(CheckOfThisRun(final_name_));
    BeforeChange("replace the checkpoint of this step");
    RETURN_IF_ERROR(ReplaceFolder(*checkpoints_, temporary_name_, final_name_, replaced_name_));
  } else {
    BeforeChange("rename the temporary folder");
    RETURN_IF_ERROR(checkpoints_->Rename(temporary_name_, final_name_));
  }
  renamed_ = true;
  BeforeChange("sync the folder of checkpoints");
  return checkpoints_->Sync();
}

// Returns an error unless an entry is a checkpoint that this run has saved.
absl::Status CheckpointSave::CheckOfThisRun(const std::string& name) const {
  ASSIGN_OR_RETURN(const Folder folder, checkpoints_->OpenFolder(name));
  const absl::StatusOr<std::string> run = RunThatSaved(folder);
  if (run.ok() && *run == contents_.run) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(folder.path(), " was not saved by this run (",
                   run.ok() ? "its manifest names another one" : run.status().message(),
                   ") and is left as it is: move it away"));
}

// Removes the replaced checkpoint. Call it only after the new one is on the disk.
void CheckpointSave::RemoveReplaced() {
  for (const std::string& name : {temporary_name_, replaced_name_}) {
    if (!checkpoints_->Has(name)) continue;
    BeforeChange("remove what was replaced");
    WarnIfError(RemoveCheckpointFolder(*checkpoints_, name));
  }
}

// Returns whether an old checkpoint counts among those to keep. Nobody knows the run of one of a
// version that is not read.
bool CheckpointSave::IsKept(const FoundCheckpoint& old) const {
  const absl::StatusOr<Folder> folder = checkpoints_->OpenFolder(old.name);
  if (!folder.ok()) return false;
  const absl::StatusOr<std::string> run = RunOfComplete(*folder);
  return absl::IsUnimplemented(run.status()) || (run.ok() && *run == contents_.run);
}

void CheckpointSave::Discard(const FoundCheckpoint& old) {
  absl::Status status = CheckOfThisRun(old.name);
  if (status.ok()) status = DiscardCheckpoint(*checkpoints_, old.name, options_);
  WarnIfError(status);
}

void CheckpointSave::Prune() {
  if (options_.keep <= 0) return;
  const absl::StatusOr<std::vector<FoundCheckpoint>> found = ListCheckpoints(*checkpoints_);
  if (!found.ok()) return WarnIfError(found.status());
  if (static_cast<int64_t>(found->size()) <= options_.keep) return;
  int64_t kept = 1;  // the new one, whatever its step
  int checked = 0;
  for (const FoundCheckpoint& old : *found) {
    if (old.name == final_name_) continue;
    if (kept >= options_.keep) {
      Discard(old);
    } else if (checked++ >= kCheckedToKeep || IsKept(old)) {
      ++kept;
    }
  }
}

}  // namespace tessera
