// Lists of ids: the readers of each value, the instructions that each one waits for.
#ifndef TESSERA_CORE_PROGRAM_HAZARDS_INDEX_LISTS_H_
#define TESSERA_CORE_PROGRAM_HAZARDS_INDEX_LISTS_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace tessera {

// A list of `To` for each `From`, both of which are ids, in two arrays: a vector for each
// instruction of a Program in many micro-batches takes more time to allocate than to use.
// Immutable.
template <typename From, typename To>
class IndexLists {
 public:
  IndexLists() = default;
  // Puts the second id of each pair into the list of the first, in the order of the pairs. `lists`
  // is the number of lists.
  IndexLists(size_t lists, absl::Span<const std::pair<From, To>> pairs)
      : begins_(lists + 2, 0), entries_(pairs.size()) {
    for (const auto& [list, entry] : pairs) ++begins_[list.index() + 2];
    for (size_t i = 2; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
    // begins_[i + 1] is where the next entry of list i goes; in the end, it is the end of the list.
    for (const auto& [list, entry] : pairs) entries_[begins_[list.index() + 1]++] = entry;
  }

  absl::Span<const To> operator[](From list) const {
    const size_t begin = begins_[list.index()], end = begins_[list.index() + 1];
    return absl::MakeConstSpan(entries_).subspan(begin, end - begin);
  }

 private:
  std::vector<size_t> begins_;  // by list; one more for the end of the last one, and one unused
  std::vector<To> entries_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_HAZARDS_INDEX_LISTS_H_
