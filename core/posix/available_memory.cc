#include "core/posix/available_memory.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tessera {
namespace {

// What the two versions of Linux's control groups say of the group of this process, where it is
// mounted as a container's own. 0 if there is no limit.
int64_t AvailableInControlGroup() {
  const std::string v2 = "/sys/fs/cgroup/";
  if (const int64_t limit = NumberInFile(v2 + "memory.max", ""); limit > 0) {
    return std::max<int64_t>(1, limit - NumberInFile(v2 + "memory.current", ""));
  }
  const std::string v1 = v2 + "memory/memory.";
  // Without a limit it is a number near 2^63.
  const int64_t limit = NumberInFile(v1 + "limit_in_bytes", "");
  if (limit > 0 && limit < int64_t{1} << 60) {
    return std::max<int64_t>(1, limit - NumberInFile(v1 + "usage_in_bytes", ""));
  }
  return 0;
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

int64_t AvailableMemory() {
  const int64_t machine = NumberInFile("/proc/meminfo", "MemAvailable:") * 1024;
  const int64_t group = AvailableInControlGroup();
  if (machine == 0 || group == 0) return std::max(machine, group);
  return std::min(machine, group);
}

}  // namespace tessera
