#include "core/posix/free_disk_space.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

namespace tessera {

int64_t FreeDiskSpace(const std::string& path) {
  struct statvfs info;
  if (statvfs(path.c_str(), &info) != 0 || info.f_blocks == 0) return -1;
  // Some blocks are reserved for the superuser.
  const uint64_t blocks = geteuid() == 0 ? info.f_bfree : info.f_bavail;
  const uint64_t most = std::numeric_limits<int64_t>::max() / std::max<uint64_t>(1, info.f_frsize);
  return static_cast<int64_t>(std::min(blocks, most) * info.f_frsize);
}

}  // namespace tessera
