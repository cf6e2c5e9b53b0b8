#include "core/posix/available_cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/posix/control_groups.h"

namespace tessera {
namespace {

int CoresOfAffinity() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

// The core time per period that a group may use, both in microseconds.
struct Quota {
  double quota = -1;  // no limit
  double period = 0;
};

Quota QuotaOf(const ControlGroup& group) {
  Quota result;
  std::string quota;
  if (group.version == 2) {
    std::ifstream(absl::StrCat(group.folder, "/cpu.max")) >> quota >> result.period;
  } else {
    std::ifstream(absl::StrCat(group.folder, "/cpu.cfs_quota_us")) >> quota;
    std::ifstream(absl::StrCat(group.folder, "/cpu.cfs_period_us")) >> result.period;
  }
  if (!absl::SimpleAtod(quota, &result.quota)) result.quota = -1;  // "max", or no file
  return result;
}

}  // namespace

int AvailableCores(const std::string& root) {
  int cores = CoresOfAffinity();
  for (const ControlGroup& group : ControlGroupsOf("cpu", root)) {
    const Quota quota = QuotaOf(group);
    if (!(quota.quota > 0) || !(quota.period > 0)) continue;
    cores = static_cast<int>(std::min<double>(cores, quota.quota / quota.period));
  }
  return std::max(1, cores);
}

}  // namespace tessera
