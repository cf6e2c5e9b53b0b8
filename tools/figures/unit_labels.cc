#include "tools/figures/unit_labels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace tessera {
namespace {

// The parts of a path between dots, and the index of the one in which two paths differ.
struct Difference {
  std::vector<std::string> parts, other;
  size_t at = 0;
  int count = 0;
};

Difference Compare(absl::string_view a, absl::string_view b) {
  Difference difference = {absl::StrSplit(a, '.'), absl::StrSplit(b, '.')};
  if (difference.parts.size() != difference.other.size()) {
    difference.count = -1;
    return difference;
  }
  for (size_t i = 0; i < difference.parts.size(); ++i) {
    if (difference.parts[i] == difference.other[i]) continue;
    difference.at = i;
    ++difference.count;
  }
  return difference;
}

// Returns text like "0-3, 5".
std::string Ranges(std::vector<int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::vector<std::string> ranges;
  for (size_t begin = 0; begin < numbers.size();) {
    size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    ranges.push_back(end - begin == 1 ? absl::StrCat(numbers[begin])
                                      : absl::StrCat(numbers[begin], "-", numbers[end - 1]));
    begin = end;
  }
  return absl::StrJoin(ranges, ", ");
}

}  // namespace

bool DifferInOneNumber(absl::string_view a, absl::string_view b) {
  const Difference difference = Compare(a, b);
  int64_t number = 0;
  return difference.count == 1 && absl::SimpleAtoi(difference.parts[difference.at], &number) &&
         absl::SimpleAtoi(difference.other[difference.at], &number);
}

std::string LabelOfUnits(const std::vector<std::string>& paths, bool all) {
  Difference difference = Compare(paths[0], paths[1]);
  std::vector<int64_t> numbers;
  for (const std::string& path : paths) {
    const std::vector<std::string> parts = absl::StrSplit(path, '.');
    int64_t number = 0;
    if (absl::SimpleAtoi(parts[difference.at], &number)) numbers.push_back(number);
  }
  difference.parts[difference.at] = all ? "*" : absl::StrCat("{", Ranges(numbers), "}");
  return absl::StrJoin(difference.parts, ".");
}

}  // namespace tessera
