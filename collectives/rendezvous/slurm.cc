#include "collectives/rendezvous/slurm.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tessera::comm {
namespace {

absl::Status Malformed(absl::string_view text, absl::string_view example) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not in Slurm's form, such as ", example));
}

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// Returns whether a text has only characters that the name of a host may have.
bool IsHostText(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
  });
}

}  // namespace

absl::StatusOr<std::string> FirstSlurmHost(absl::string_view node_list) {
  const absl::Status malformed = Malformed(node_list, "gpu[01-03,7],login");
  std::string host;
  absl::string_view rest = node_list;
  while (!rest.empty() && rest.front() != ',') {
    if (rest.front() != '[') {
      const absl::string_view text = rest.substr(0, rest.find_first_of(",["));
      if (!IsHostText(text)) return malformed;
      absl::StrAppend(&host, text);
      rest.remove_prefix(text.size());
      continue;
    }
    const size_t end = rest.find(']');
    if (end == absl::string_view::npos) return malformed;
    const absl::string_view ranges = rest.substr(1, end - 1);
    const absl::string_view first = ranges.substr(0, ranges.find_first_of(",-"));
    if (!IsNumber(first)) return malformed;
    absl::StrAppend(&host, first);
    rest.remove_prefix(end + 1);
  }
  if (host.empty()) return malformed;
  return host;
}

absl::StatusOr<int64_t> SlurmTasksOfNode(absl::string_view tasks_per_node, int64_t node) {
  const absl::Status malformed = Malformed(tasks_per_node, "4(x3),2");
  int64_t first_node = 0;  // of the next part
  for (absl::string_view part : absl::StrSplit(tasks_per_node, ',')) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(part, absl::MaxSplits("(x", 1));
    absl::string_view times_text = halves.second;
    int64_t tasks = 0;
    int64_t times = 1;
    if (!IsNumber(halves.first) || !absl::SimpleAtoi(halves.first, &tasks)) return malformed;
    if (halves.first.size() != part.size() &&
        (!absl::ConsumeSuffix(&times_text, ")") || !IsNumber(times_text) ||
         !absl::SimpleAtoi(times_text, &times))) {
      return malformed;
    }
    if (node - first_node < times) return tasks;
    first_node += times;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", tasks_per_node, "' has no node ", node, ", counted from 0"));
}

}  // namespace tessera::comm
