#include "core/train/checkpoint/remains.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/durable_file.h"
#include "core/train/checkpoint/open_checkpoint.h"

namespace tessera {
namespace {

void BeforeChange(const WriteOptions& options, absl::string_view what) {
  if (options.before_change) options.before_change(what);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> RemoveRemains(const std::string& checkpoints_folder,
                                                       const WriteOptions& options) {
  std::vector<std::string> warnings;
  const absl::StatusOr<std::vector<std::string>> names = ListFolder(checkpoints_folder);
  if (absl::IsNotFound(names.status())) return warnings;
  RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    const std::string path = absl::StrCat(checkpoints_folder, "/", name);
    absl::string_view replaced = name;
    if (absl::StartsWith(name, kTemporaryPrefix)) {
      BeforeChange(options, absl::StrCat("remove ", name));
      const absl::Status removed = RemoveTree(path);
      if (!removed.ok()) warnings.emplace_back(removed.message());
    } else if (absl::ConsumePrefix(&replaced, kReplacedPrefix)) {
      const std::string replacement = absl::StrCat(checkpoints_folder, "/", replaced);
      const bool was_replaced = Exists(replacement);
      // It may be the one from which the run resumes.
      if (was_replaced && !LooksComplete(replacement)) continue;
      BeforeChange(options, absl::StrCat("settle ", name));
      RETURN_IF_ERROR(was_replaced ? DiscardCheckpoint(path, options)
                                   : RenameFolder(path, replacement));
    }
  }
  return warnings;
}

absl::Status DiscardCheckpoint(const std::string& folder, const WriteOptions& options) {
  const std::string temporary = WithPrefix(kTemporaryPrefix, folder);
  BeforeChange(options, "rename an old checkpoint");
  RETURN_IF_ERROR(RenameFolder(folder, temporary));
  BeforeChange(options, "remove an old checkpoint");
  return RemoveTree(temporary);
}

}  // namespace tessera
