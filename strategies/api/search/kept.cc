#include "strategies/api/search/kept.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace tessera::strategy::search {
namespace {

// Returns whether each completion of `a` takes no more time than the same one of `b`. The end of a
// pass is a maximum of sums with one clock each. So a pass ends later by at most the largest
// difference of their clocks, and the other pass may make up for it.
bool TakesNoLonger(const Partial& a, const Partial& b) {
  if (a.waiting_ps > 0 && b.waiting_ps == 0) return false;
  const int64_t forward =
      std::max(a.forward_ps - b.forward_ps, a.forward_link_ps - b.forward_link_ps);
  const int64_t backward =
      std::max(a.backward_ps - b.backward_ps, a.backward_link_ps - b.backward_link_ps) +
      std::max<int64_t>(0, a.waiting_ps - b.waiting_ps);
  return forward + backward <= 0;
}

}  // namespace

void Kept::Add(const Partial& partial) {
  const size_t number = partials_.size() % kGroup;
  if (number == 0) {
    groups_.emplace_back();
    std::fill_n(groups_.back().peaks, kGroup, std::numeric_limits<float>::infinity());
  }
  Group& group = groups_.back();
  group.peaks[number] = static_cast<float>(partial.peak_bytes);
  group.ends[number] = static_cast<float>(partial.end_bytes);
  group.computations[number] = static_cast<float>(partial.forward_ps + partial.backward_ps);
  group.links[number] = static_cast<float>(partial.forward_link_ps + partial.backward_link_ps);
  partials_.push_back(partial);
}

bool Kept::HasNoWorse(const Partial& partial) const {
  const auto peak = static_cast<float>(partial.peak_bytes);
  const auto end = static_cast<float>(partial.end_bytes);
  const float endless = std::numeric_limits<float>::infinity();
  const float computation =
      least_ ? endless : static_cast<float>(partial.forward_ps + partial.backward_ps);
  const float link =
      least_ ? endless : static_cast<float>(partial.forward_link_ps + partial.backward_link_ps);
  for (size_t i = groups_.size(); i-- > 0;) {  // most often it is one of the last
    const Group& group = groups_[i];
    int any = 0;
    for (size_t j = 0; j < kGroup; ++j) {
      any |= static_cast<int>(group.peaks[j] <= peak) & static_cast<int>(group.ends[j] <= end) &
             static_cast<int>(group.computations[j] <= computation) &
             static_cast<int>(group.links[j] <= link);
    }
    if (any == 0) continue;
    const size_t last = std::min(partials_.size(), (i + 1) * kGroup);
    for (size_t j = i * kGroup; j < last; ++j) {
      const Partial& other = partials_[j];
      if (other.peak_bytes <= partial.peak_bytes && other.end_bytes <= partial.end_bytes &&
          (least_ || TakesNoLonger(other, partial))) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace tessera::strategy::search
