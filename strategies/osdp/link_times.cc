#include "strategies/osdp/link_times.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "strategies/api/collective_prices.h"

namespace tessera::strategy::osdp {

absl::StatusOr<std::vector<std::vector<LinkTimes>>> LinkTimesOf(const Request& request,
                                                                const std::vector<Unit>& units,
                                                                Host& host) {
  using Collective = ProgramProto::Collective;
  constexpr int64_t kStored = sizeof(float);  // parameters are stored in f32
  const PrecisionChoice& precision = request.message().precision();
  struct Calls {
    std::vector<int> gathers, reductions;
  };
  CollectivePrices prices(kAxis, request.ranks());
  std::vector<std::vector<Calls>> calls(units.size());
  int64_t elements = 0;  // of all units
  for (size_t i = 0; i < units.size(); ++i) {
    elements += units[i].bytes / kStored;
    for (const Storage storage : kStorages) {
      Calls& of_storage = calls[i].emplace_back();
      for (const int64_t bytes : BytesOfGathers(units[i], storage)) {
        const bool replicated = storage == Storage::kReplicated;
        if (!replicated) {
          of_storage.gathers.push_back(
              prices.Add(Collective::ALL_GATHER, precision.parameters(), bytes / kStored));
        }
        of_storage.reductions.push_back(
            prices.Add(replicated ? Collective::ALL_REDUCE : Collective::REDUCE_SCATTER,
                       precision.reduction(), bytes / kStored));
      }
    }
  }
  const int all = prices.Add(Collective::ALL_REDUCE, precision.reduction(), elements);
  RETURN_IF_ERROR(prices.Ask(host));
  std::vector<std::vector<LinkTimes>> times(units.size());
  for (size_t i = 0; i < units.size(); ++i) {
    const double share =
        static_cast<double>(units[i].bytes / kStored) / static_cast<double>(elements);
    for (const Storage storage : kStorages) {
      LinkTimes& of_storage = times[i].emplace_back();
      const Calls& of = calls[i][static_cast<size_t>(storage)];
      for (const int call : of.gathers) of_storage.gather += prices[call];
      for (const int call : of.reductions) of_storage.reduction += prices[call];
      of_storage.least_reduction = of_storage.reduction;
      // Buckets of replicated units share their latency.
      if (storage == Storage::kReplicated) {
        of_storage.least_reduction = std::min(of_storage.reduction, share * prices[all]);
      }
    }
  }
  return times;
}

}  // namespace tessera::strategy::osdp
