#include "core/train/checkpoint/checkpoint_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera {

absl::StatusOr<CheckpointFile> CheckpointFile::Create(const Folder& folder, const std::string& name,
                                                      const WriteOptions& options) {
  if (options.before_change) options.before_change(absl::StrCat("create ", name));
  ASSIGN_OR_RETURN(std::unique_ptr<DurableWriter> writer, DurableWriter::Create(folder, name));
  return CheckpointFile(std::move(writer), name, options);
}

void CheckpointFile::BeforeChange(absl::string_view what) const {
  if (before_change_) before_change_(absl::StrCat(what, " ", record_.name));
}

absl::Status CheckpointFile::Append(absl::Span<const char> bytes) {
  BeforeChange("write");
  checksum_.Update(bytes);
  record_.bytes += static_cast<int64_t>(bytes.size());
  return writer_->Write(bytes);
}

absl::StatusOr<Manifest::File> CheckpointFile::Finish() {
  BeforeChange("sync");
  RETURN_IF_ERROR(writer_->Finish());
  record_.checksum = checksum_.Hex();
  return std::move(record_);
}

absl::StatusOr<Manifest::File> WriteTextFile(const Folder& folder, const std::string& name,
                                             absl::string_view text, const WriteOptions& options) {
  ASSIGN_OR_RETURN(CheckpointFile file, CheckpointFile::Create(folder, name, options));
  RETURN_IF_ERROR(file.Append(text));
  return file.Finish();
}

}  // namespace tessera
