#include "core/plan/choices/path_index.h"

#include <algorithm>

namespace tessera {

void PathIndex::Add(absl::string_view path, absl::string_view origin) {
  const int number = static_cast<int>(paths_.size());
  numbers_[path].push_back(number);
  if (origin != path) numbers_[origin].push_back(number);
  paths_.emplace_back(path.data(), path.size());
  origins_.emplace_back(origin.data(), origin.size());
}

std::vector<int> PathIndex::Matching(const PathPattern& pattern) const {
  std::vector<int> found;
  if (pattern.has_wildcards()) {
    for (size_t i = 0; i < paths_.size(); ++i) {
      if (pattern.Matches(paths_[i]) ||
          (origins_[i] != paths_[i] && pattern.Matches(origins_[i]))) {
        found.push_back(static_cast<int>(i));
      }
    }
    return found;
  }
  for (const std::string& path : pattern.paths()) {
    const auto it = numbers_.find(path);
    if (it != numbers_.end()) found.insert(found.end(), it->second.begin(), it->second.end());
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace tessera
