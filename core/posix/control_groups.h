// The control groups (cgroups) of this process.
#ifndef TESSERA_CORE_POSIX_CONTROL_GROUPS_H_
#define TESSERA_CORE_POSIX_CONTROL_GROUPS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tessera {

struct ControlGroup {
  int version = 2;     // of Linux's control groups: 1 or 2
  std::string folder;  // its files are here; it may not exist
};

// Returns the groups of this process for a controller ("memory", "cpu"): its own group and the
// groups that contain it. In a container, the path of a group may be the host's, which does not
// exist there. The folder of the mount, which is returned too, is then the container's group.
// `root` stands for "/" in tests.
//
// Thread safety: may be called from any thread.
std::vector<ControlGroup> ControlGroupsOf(absl::string_view controller, const std::string& root);

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_CONTROL_GROUPS_H_
