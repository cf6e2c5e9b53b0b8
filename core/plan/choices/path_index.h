// An index of the paths that the choices of a Plan may name.
#ifndef TESSERA_CORE_PLAN_CHOICES_PATH_INDEX_H_
#define TESSERA_CORE_PLAN_CHOICES_PATH_INDEX_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "core/text/path_pattern.h"

namespace tessera {

// Numbers paths in the order in which they are added. Thread safety: const methods may run
// concurrently.
class PathIndex {
 public:
  // Adds a path. For a slice, `origin` is the path of the sliced value, which names all its slices;
  // otherwise it equals `path`.
  void Add(absl::string_view path, absl::string_view origin);
  // Returns whether `path` was added as a path or as an origin.
  bool Has(absl::string_view path) const { return numbers_.contains(path); }
  const std::vector<std::string>& paths() const { return paths_; }

  // Returns the numbers of the paths that match, or whose origins match, in ascending order.
  std::vector<int> Matching(const PathPattern& pattern) const;

 private:
  std::vector<std::string> paths_, origins_;
  absl::flat_hash_map<std::string, std::vector<int>> numbers_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_CHOICES_PATH_INDEX_H_
