#include "tools/train/price_keeper.h"

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/cost/prices/price_file.h"
#include "core/status/status_macros.h"

namespace tessera {

void PriceKeeper::AddStep(const Program& program, const Table<InstructionId, TimeSpan>& times) {
  prices_.kernels.AddStep(program, times, configured_.ranks.of_host);
}

absl::Status PriceKeeper::Keep() {
  if (configured_.ranks.are_threads) return absl::OkStatus();
  Ranks& ranks = *configured_.ranks.ranks;
  ASSIGN_OR_RETURN(const std::vector<std::string> used,
                   ranks.AllGather(absl::StrCat(load_.OwnSeconds())));
  if (!ranks.is_first() || prices_.empty()) return absl::OkStatus();
  const std::vector<int>& hosts = configured_.ranks.site.host_of;
  double peers = 0;  // seconds of the other ranks of this host
  for (size_t rank = 1; rank < used.size(); ++rank) {
    double seconds = 0;
    if (hosts[rank] == hosts[0] && absl::SimpleAtod(used[rank], &seconds)) peers += seconds;
  }
  if (load_.Share(peers) > kBusyShare) return absl::OkStatus();
  AddToPriceFile(PriceFilePath(), *configured_.backend, prices_).IgnoreError();
  return absl::OkStatus();
}

}  // namespace tessera
