#include "core/tensor/rank_placement.h"

#include <algorithm>
#include <map>

namespace tessera {

RankPlacement PlaceRanks(absl::Span<const int> host_of) {
  RankPlacement placement;
  std::map<int, int> index_of;  // of a host
  for (int rank = 0; rank < static_cast<int>(host_of.size()); ++rank) {
    const auto [it, is_new] = index_of.try_emplace(host_of[rank], placement.host_count());
    if (is_new) placement.hosts.emplace_back();
    std::vector<int>& ranks = placement.hosts[it->second];
    placement.places.push_back({it->second, static_cast<int>(ranks.size())});
    ranks.push_back(rank);
  }
  const std::vector<std::vector<int>>& hosts = placement.hosts;
  const size_t ranks = hosts[0].size();
  placement.is_regular = true;
  size_t smallest = ranks;
  for (const std::vector<int>& host : hosts) {
    smallest = std::min(smallest, host.size());
    const bool is_block = host.back() - host.front() + 1 == static_cast<int>(host.size());
    placement.is_regular = placement.is_regular && is_block && host.size() == ranks;
  }
  placement.keeps_order = hosts.size() == 1 || (placement.is_regular && (ranks & (ranks - 1)) == 0);
  for (size_t rail = 0; rail < smallest; ++rail) {
    const auto precedes = [rail](const std::vector<int>& a, const std::vector<int>& b) {
      return a[rail] < b[rail];
    };
    if (!std::is_sorted(hosts.begin(), hosts.end(), precedes)) break;
    ++placement.rails;
  }
  return placement;
}

}  // namespace tessera
