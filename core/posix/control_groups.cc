#include "core/posix/control_groups.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tessera {
namespace {

void AppendGroups(int version, const std::string& mount, absl::string_view path,
                  std::vector<ControlGroup>* groups) {
  while (true) {
    absl::ConsumeSuffix(&path, "/");
    groups->push_back({version, absl::StrCat(mount, path)});
    if (path.empty()) return;
    path = path.substr(0, path.rfind('/'));
  }
}

}  // namespace

// Lines of /proc/self/cgroup are "hierarchy:controllers:path". Version 2 is hierarchy 0.
std::vector<ControlGroup> ControlGroupsOf(absl::string_view controller, const std::string& root) {
  std::vector<ControlGroup> groups;
  std::ifstream file(absl::StrCat(root, "/proc/self/cgroup"));
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (fields[0] == "0") {
      AppendGroups(2, absl::StrCat(root, "/sys/fs/cgroup"), fields[2], &groups);
    } else if (std::find(controllers.begin(), controllers.end(), controller) != controllers.end()) {
      AppendGroups(1, absl::StrCat(root, "/sys/fs/cgroup/", controller), fields[2], &groups);
    }
  }
  return groups;
}

}  // namespace tessera
