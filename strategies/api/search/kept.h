// The partial choices for a unit that the search (search.h) keeps.
#ifndef TESSERA_STRATEGIES_API_SEARCH_KEPT_H_
#define TESSERA_STRATEGIES_API_SEARCH_KEPT_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "strategies/api/search/relaxation.h"

namespace tessera::strategy::search {

// Thread safety: const methods may be called by any thread.
class Kept {
 public:
  // With `least`, times do not count.
  explicit Kept(bool least) : least_(least) {}

  size_t size() const { return partials_.size(); }
  std::vector<Partial> Take() { return std::move(partials_); }
  void Add(const Partial& partial);
  // Returns whether each completion of one that is kept is no worse than the same one of `partial`.
  bool HasNoWorse(const Partial& partial) const;

 private:
  // Sizes and sums of times that are compared first, so that few partial choices have to be
  // compared in full: 16 at a time, of which compilers make vectors. Rounding keeps their order.
  static constexpr size_t kGroup = 16;
  struct Group {
    float peaks[kGroup], ends[kGroup];  // infinite: none
    float computations[kGroup], links[kGroup];
  };

  const bool least_;
  std::vector<Partial> partials_;
  std::vector<Group> groups_;
};

}  // namespace tessera::strategy::search

#endif  // TESSERA_STRATEGIES_API_SEARCH_KEPT_H_
