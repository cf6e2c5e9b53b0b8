#include "core/posix/available_cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/posix/control_groups.h"

namespace tessera {
namespace {

int CoresOfAffinity() {
  const std::vector<int> cores = AllowedCores();
  if (!cores.empty()) return static_cast<int>(cores.size());
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

// The position of a core: its package, memory node, physical core and own number. A number that the
// system does not report is 0.
using CorePosition = std::tuple<int, int, int, int>;

CorePosition PositionOf(int core, const std::string& root) {
  const std::string folder = absl::StrCat(root, "/sys/devices/system/cpu/cpu", core);
  int package = 0, node = 0, physical = 0;
  std::ifstream(folder + "/topology/physical_package_id") >> package;
  std::ifstream(folder + "/topology/core_id") >> physical;
  // The node is in the name of a link.
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "node") && absl::SimpleAtoi(name.substr(4), &node)) break;
  }
  return {package, node, physical, core};
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

std::vector<int> AllowedCores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

void SortByTopology(std::vector<int>* cores, const std::string& root) {
  std::vector<CorePosition> positions;
  for (const int core : *cores) positions.push_back(PositionOf(core, root));
  std::sort(positions.begin(), positions.end());
  for (size_t i = 0; i < positions.size(); ++i) (*cores)[i] = std::get<3>(positions[i]);
}

}  // namespace tessera
