#include "tools/train/price_keeper.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "collectives/host_identity.h"
#include "core/cost/prices/price_file.h"
#include "core/status/status_macros.h"

namespace tessera {

void PriceKeeper::AddStep(const Program& program, const Table<InstructionId, TimeSpan>& times) {
  prices_.kernels.AddStep(program, times, configured_.ranks.of_host);
}

absl::Status PriceKeeper::Keep() {
  if (configured_.ranks.are_threads) return absl::OkStatus();
  Ranks& ranks = *configured_.ranks.ranks;
  const std::string machine = comm::MachineIdentity();
  ASSIGN_OR_RETURN(const std::vector<std::string> used,
                   ranks.AllGather(absl::StrCat(machine, " ", load_.OwnSeconds())));
  if (!ranks.is_first() || prices_.empty()) return absl::OkStatus();
  // The seconds of the other ranks of this machine. Its containers, and emulated hosts, share
  // cores.
  double peers = 0;
  for (size_t rank = 1; rank < used.size(); ++rank) {
    const std::pair<std::string, std::string> machine_and_seconds = absl::StrSplit(used[rank], ' ');
    double seconds = 0;
    if (machine_and_seconds.first == machine &&
        absl::SimpleAtod(machine_and_seconds.second, &seconds)) {
      peers += seconds;
    }
  }
  if (load_.Share(peers) > kBusyShare) return absl::OkStatus();
  AddToPriceFile(PriceFilePath(), *configured_.backend, prices_).IgnoreError();
  return absl::OkStatus();
}

}  // namespace tessera
