#include "tools/train/report/process_memory.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/posix/available_memory.h"
#include "core/text/human_units.h"

namespace tessera {

ResidentMemory ReadResidentMemory(const std::string& process) {
  struct Mapped {
    int64_t bytes = 0;
    bool executable = false;
  };
  absl::flat_hash_map<std::string, Mapped> files;  // by path
  ResidentMemory resident;
  Mapped* mapped = nullptr;  // the file of the mapping that the current lines describe
  std::ifstream smaps(process + "/smaps");
  for (std::string line; std::getline(smaps, line);) {
    absl::string_view text = line;
    if (absl::ConsumePrefix(&text, "Rss:")) {
      (mapped != nullptr ? mapped->bytes : resident.anonymous) += FirstNumber(text) * 1024;
      continue;
    }
    // "address permissions offset device inode path", or else another "Name: number".
    const std::vector<absl::string_view> words =
        absl::StrSplit(text, absl::MaxSplits(' ', 5), absl::AllowEmpty());
    if (words.size() < 5 || absl::EndsWith(words[0], ":")) continue;
    const absl::string_view path =
        words.size() > 5 ? absl::StripLeadingAsciiWhitespace(words[5]) : "";
    mapped = absl::StartsWith(path, "/") ? &files[path] : nullptr;
    if (mapped != nullptr) mapped->executable |= absl::StrContains(words[1], 'x');
  }
  for (const auto& [path, file] : files) {
    (file.executable ? resident.code : resident.files) += file.bytes;
  }
  resident.peak = std::max(NumberInFile(process + "/status", "VmHWM:") * 1024,
                           resident.code + resident.files + resident.anonymous);
  return resident;
}

int64_t PeakMemory() { return NumberInFile("/proc/self/status", "VmHWM:") * 1024; }

int64_t ResetPeakMemory() {
  const int64_t peak = PeakMemory();
  std::ofstream("/proc/self/clear_refs") << "5";  // proc(5), CLEAR_REFS_MM_HIWATER_RSS
  return peak;
}

std::string ResidentMemoryLine(const ResidentMemory& resident, int64_t arena_bytes) {
  std::string line =
      absl::StrCat(FormatBytes(resident.peak), " resident at the peak: arena ",
                   FormatBytes(arena_bytes), ", program and libraries ", FormatBytes(resident.code),
                   ", mapped files ", FormatBytes(resident.files), ", heap and stacks ",
                   FormatBytes(std::max<int64_t>(0, resident.anonymous - arena_bytes)));
  const int64_t freed =
      resident.peak - resident.code - resident.files - std::max(resident.anonymous, arena_bytes);
  if (freed > resident.peak / 100) absl::StrAppend(&line, ", freed since ", FormatBytes(freed));
  return line;
}

}  // namespace tessera
