#include "core/train/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/state_entry.h"

namespace tessera {
namespace {

// Returns the step, or -1 if `name` is not exactly the name of a step's folder.
int64_t StepOf(absl::string_view name) {
  int64_t step = -1;
  absl::string_view digits = name;
  if (!absl::ConsumePrefix(&digits, "step_") || !absl::SimpleAtoi(digits, &step) || step < 0) {
    return -1;
  }
  return StepFolderName(step) == name ? step : -1;
}

}  // namespace

std::string StateFileName(absl::string_view role, int rank, int ranks) {
  const absl::string_view name = role == kOptimizerRole ? "optimizer" : "parameters";
  if (ranks == 1) return absl::StrCat(name, ".safetensors");
  return absl::StrFormat("%s-rank%05d.safetensors", name, rank);
}

std::string StepFolderName(int64_t step) { return absl::StrFormat("step_%08d", step); }

int64_t StepOfFolder(absl::string_view folder) {
  while (absl::ConsumeSuffix(&folder, "/")) {
  }
  const size_t slash = folder.rfind('/');
  const absl::string_view name =
      slash == absl::string_view::npos ? folder : folder.substr(slash + 1);
  return StepOf(absl::StripPrefix(name, kReplacedPrefix));
}

std::string CheckpointsFolder(absl::string_view run_folder) {
  return absl::StrCat(run_folder, "/", kCheckpointsName);
}

absl::StatusOr<Folder> OpenTemporaryFolder(const std::string& path) {
  return Folder::OpenBelow(path, /*names=*/2);
}

absl::StatusOr<std::vector<FoundCheckpoint>> ListCheckpoints(const Folder& checkpoints) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, checkpoints.List());
  std::vector<FoundCheckpoint> found;
  // Iterates from the last name to the first, so that "step_" comes before ".old-".
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const int64_t step = StepOfFolder(*name);
    if (step >= 0) found.push_back({step, *name, checkpoints.PathOf(*name)});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.step > b.step; });
  return found;
}

absl::StatusOr<std::vector<FoundCheckpoint>> ListCheckpoints(
    const std::string& checkpoints_folder) {
  ASSIGN_OR_RETURN(const Folder checkpoints, Folder::Open(checkpoints_folder));
  return ListCheckpoints(checkpoints);
}

}  // namespace tessera
