#include "core/cost/best_rates.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/cost/cache_file.h"

namespace tessera {
namespace {

constexpr char kFlops[] = "flops_per_second";
constexpr char kBytes[] = "bytes_per_second";

// {"cpu: AMD EPYC, AVX3, 2 threads": {"flops_per_second": 2.2e11, "bytes_per_second": 3.8e10}}
constexpr CacheLimits kLimits = {.bytes = 1 << 20, .depth = 2};  // thousands of machines

// Returns the higher of a measured rate and the kept one, if that is a possible rate.
double HigherRate(double measured, const CacheJson& kept, const char* name, double highest) {
  if (!kept.is_object() || !kept.contains(name) || !kept[name].is_number()) return measured;
  const double rate = kept[name];
  return rate > 0 && rate <= highest ? std::max(measured, rate) : measured;
}

// Returns for each rate the higher of the measured and the kept one.
MachineRates HigherRates(const MachineRates& measured, const CacheJson& kept) {
  return {HigherRate(measured.flops_per_second, kept, kFlops, kHighestFlopsPerSecond),
          HigherRate(measured.bytes_per_second, kept, kBytes, kHighestBytesPerSecond)};
}

CacheJson EntryOf(const MachineRates& rates) {
  return {{kFlops, rates.flops_per_second}, {kBytes, rates.bytes_per_second}};
}

}  // namespace

std::string BestRatesPath() { return CachePath("machine.json"); }

std::string MachineName(const KernelCatalogue& catalogue) {
  const Processor processor = catalogue.processor();
  return absl::StrCat(catalogue.name(), ": ", processor.name, ", ", processor.threads,
                      processor.threads == 1 ? " thread" : " threads");
}

MachineRates KeepBestRates(const std::string& path, const std::string& machine,
                           const MachineRates& measured) {
  if (path.empty()) return measured;
  absl::StatusOr<CacheJson> rates_by_machine = ReadCacheFile(path, kLimits);
  if (!rates_by_machine.ok()) rates_by_machine = CacheJson::object();
  const CacheJson& kept = (*rates_by_machine)[machine];
  MachineRates best = HigherRates(measured, kept);
  if (EntryOf(best) == kept || EntryOf(best) == EntryOf({})) return best;
  const absl::Status written = UpdateCacheFile(path, kLimits, [&](CacheJson& values) {
    best = HigherRates(measured, values[machine]);
    values[machine] = EntryOf(best);
  });
  written.IgnoreError();  // the rates are measured again by the next run
  return best;
}

}  // namespace tessera
