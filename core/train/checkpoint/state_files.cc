#include "core/train/checkpoint/state_files.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/strict_json.h"

namespace tessera {

absl::StatusOr<std::vector<StateFile>> ArrangeStateFiles(const std::vector<StateEntry>& state) {
  // Paths must be unique over all files, not only within one.
  absl::flat_hash_map<absl::string_view, int> entry_of_path;
  for (size_t i = 0; i < state.size(); ++i) {
    const StateEntry& entry = state[i];
    if (entry.role != kParameterRole && entry.role != kOptimizerRole) {
      return absl::InvalidArgumentError(
          absl::StrCat("the state ", Quote(entry.path), " has the role ", Quote(entry.role),
                       "; 'parameter' or 'optimizer' would be right"));
    }
    if (!entry_of_path.emplace(entry.path, static_cast<int>(i)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two states have the path ", Quote(entry.path)));
    }
  }
  std::vector<StateFile> files;
  for (const auto& [role, name] :
       {std::pair(kParameterRole, kParametersFile), std::pair(kOptimizerRole, kOptimizerFile)}) {
    std::vector<SafetensorsTensor> tensors;
    for (const StateEntry& entry : state) {
      if (entry.role == role) tensors.push_back({entry.path, entry.type, 0, 0});
    }
    StateFile file;
    file.name = name;
    ASSIGN_OR_RETURN(file.header, MakeSafetensorsHeader(std::move(tensors)));
    for (const SafetensorsTensor& tensor : file.header.tensors) {
      file.entries.push_back(entry_of_path.at(tensor.name));
    }
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace tessera
