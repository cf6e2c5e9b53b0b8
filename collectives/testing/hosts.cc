#include "collectives/testing/hosts.h"

#include <string>
#include <utility>

#include "collectives/hierarchical/hierarchical.h"
#include "core/status/status_macros.h"
#include "core/tensor/rank_placement.h"

namespace tessera::comm {
namespace {

// Returns an exchange that returns only the texts of `ranks`, in their order. All ranks take part
// in it.
Exchange ExchangeAmong(const Exchange& all, std::vector<int> ranks) {
  return [all, ranks = std::move(ranks)](
             absl::string_view key,
             absl::string_view mine) -> absl::StatusOr<std::vector<std::string>> {
    ASSIGN_OR_RETURN(const std::vector<std::string> texts, all(key, mine));
    std::vector<std::string> some;
    for (int rank : ranks) some.push_back(texts[rank]);
    return some;
  };
}

}  // namespace

absl::StatusOr<HostedRank> MakeHostedRank(int rank, const std::vector<int>& host_of,
                                          const Exchange& exchange, double timeout_seconds,
                                          std::optional<Integrity> integrity) {
  const RankPlacement placement = PlaceRanks(host_of);
  const RankPlacement::Place place = placement.places[rank];
  const std::vector<int>& ranks = placement.hosts[place.host];
  HostedRank self;
  ASSIGN_OR_RETURN(self.shm_backend,
                   shm::Backend::Create(
                       place.local, static_cast<int>(ranks.size()), ExchangeAmong(exchange, ranks),
                       {.timeout_seconds = timeout_seconds, .memory = {.job_ranks = ranks}}));
  ASSIGN_OR_RETURN(self.network, tcp::Network::Create(
                                     rank, placement.size(), exchange,
                                     {.timeout_seconds = timeout_seconds, .integrity = integrity}));
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> local,
                   self.shm_backend->World(hierarchical::LocalName("world", host_of)));
  ASSIGN_OR_RETURN(self.host_group,
                   local->Split("ranks of the host", std::vector<int>(ranks.size())));
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> all, self.network->World());
  ASSIGN_OR_RETURN(self.world,
                   hierarchical::MakeGroup("world", host_of, std::move(local), std::move(all),
                                           hierarchical::GracePeriodOf(timeout_seconds)));
  return self;
}

}  // namespace tessera::comm
