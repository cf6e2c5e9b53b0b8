#include "core/posix/available_memory.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/posix/control_groups.h"

namespace tessera {
namespace {

// The names of the files and fields that one version of Linux's control groups uses.
struct GroupFiles {
  const char* limit;
  const char* usage;
  // The page cache in memory.stat. The system writes it back and drops it before a process runs
  // out of memory, so it counts as available, although it is part of the usage. A file in /dev/shm
  // is in neither list.
  std::initializer_list<const char*> page_cache;
};
const GroupFiles kVersion1 = {"memory.limit_in_bytes",
                              "memory.usage_in_bytes",
                              {"total_inactive_file ", "total_active_file "}};
const GroupFiles kVersion2 = {
    "memory.max", "memory.current", {"inactive_file ", "active_file ", "slab_reclaimable "}};

constexpr int64_t kUnlimited = int64_t{1} << 60;  // version 1 reports a number near 2^63

// Returns the bytes that the group with this folder still allows, or kUnlimited if it sets no
// limit.
int64_t AvailableInGroup(const std::string& folder, const GroupFiles& files) {
  const int64_t limit = NumberInFile(absl::StrCat(folder, "/", files.limit), "");
  if (limit == 0 || limit >= kUnlimited) return kUnlimited;
  int64_t used = NumberInFile(absl::StrCat(folder, "/", files.usage), "");
  for (const char* key : files.page_cache) {
    used -= NumberInFile(absl::StrCat(folder, "/memory.stat"), key);
  }
  return std::max<int64_t>(1, limit - std::max<int64_t>(0, used));
}

// Returns the smallest amount that the groups of this process allow.
int64_t AvailableInControlGroups(const std::string& root) {
  int64_t available = kUnlimited;
  for (const ControlGroup& group : ControlGroupsOf("memory", root)) {
    const GroupFiles& files = group.version == 1 ? kVersion1 : kVersion2;
    available = std::min(available, AvailableInGroup(group.folder, files));
  }
  return available;
}

}  // namespace

int64_t FirstNumber(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ', absl::SkipWhitespace());
  int64_t number;
  return !words.empty() && absl::SimpleAtoi(words[0], &number) ? number : 0;
}

int64_t NumberInFile(const std::string& path, absl::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    absl::string_view text = line;
    if (absl::ConsumePrefix(&text, key)) return FirstNumber(text);
  }
  return 0;
}

int64_t AvailableMemory(const std::string& root) {
  const int64_t machine = NumberInFile(root + "/proc/meminfo", "MemAvailable:") * 1024;
  const int64_t groups = AvailableInControlGroups(root);
  if (groups == kUnlimited) return machine;
  return machine == 0 ? groups : std::min(machine, groups);
}

}  // namespace tessera
