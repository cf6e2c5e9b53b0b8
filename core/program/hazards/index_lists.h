// Lists of numbers: the readers of each value, the instructions that each one waits for.
#ifndef TESSERA_CORE_PROGRAM_HAZARDS_INDEX_LISTS_H_
#define TESSERA_CORE_PROGRAM_HAZARDS_INDEX_LISTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace tessera {

// A list of numbers for each of 0 to n - 1, in two arrays: a vector for each instruction of a
// Program in many micro-batches takes more time to allocate than to use. Immutable.
class IndexLists {
 public:
  IndexLists() = default;
  // Puts the second number of each pair into the list of the first, in the order of the pairs.
  IndexLists(size_t lists, absl::Span<const std::pair<int32_t, int32_t>> pairs)
      : begins_(lists + 2, 0), numbers_(pairs.size()) {
    for (const auto& [list, number] : pairs) ++begins_[list + 2];
    for (size_t i = 2; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
    // begins_[i + 1] is where the next number of list i goes; in the end, it is the end of the
    // list.
    for (const auto& [list, number] : pairs) numbers_[begins_[list + 1]++] = number;
  }

  absl::Span<const int32_t> operator[](size_t list) const {
    return absl::MakeConstSpan(numbers_).subspan(begins_[list], begins_[list + 1] - begins_[list]);
  }

 private:
  std::vector<size_t> begins_;  // by list; one more for the end of the last one, and one unused
  std::vector<int32_t> numbers_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_HAZARDS_INDEX_LISTS_H_
