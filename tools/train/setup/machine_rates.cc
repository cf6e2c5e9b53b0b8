#include "tools/train/setup/machine_rates.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/cost/best_rates.h"
#include "core/posix/available_memory.h"
#include "core/posix/load_of_others.h"
#include "core/status/status_macros.h"
#include "core/text/human_units.h"

namespace tessera {
namespace {

// The seconds for measuring again a rate that is known from earlier runs.
constexpr double kSecondsForKnownRate = 0.05;
// More than the caches of most processors hold.
constexpr int64_t kBeyondCaches = int64_t{128} << 20;

// Returns the best rate as text, with the present one if that is much lower. `share` is the present
// rate over the best.
std::string RateText(const std::string& best, const std::string& now, double share) {
  return share < 0.8 ? absl::StrCat(best, " (now ", now, ")") : best;
}

std::string BytesPerSecond(double rate) {
  return absl::StrCat(FormatBytes(static_cast<int64_t>(rate)), "/s");
}

}  // namespace

std::string RatesName(const Backend& backend, DType dtype) {
  const std::string machine = MachineName(backend);
  return dtype == DType::kF32 ? machine : absl::StrCat(machine, ", ", DTypeName(dtype));
}

MeasureOptions WithinMemory(MeasureOptions options, int64_t available) {
  if (available > 0) options.memory_bytes = std::min(options.memory_bytes, available / 2);
  return options;
}

absl::StatusOr<MeasuredRates> MeasureRates(Backend& backend, DType dtype, int64_t run_bytes) {
  MeasureOptions options;
  options.dtype = dtype;
  options.memory_bytes = std::min(options.memory_bytes, std::max(run_bytes, kBeyondCaches));
  options = WithinMemory(options);
  const MachineRates known = KeepBestRates(BestRatesPath(), RatesName(backend, dtype), {});
  if (known.flops_per_second > 0) options.matmul_seconds = kSecondsForKnownRate;
  if (known.bytes_per_second > 0) options.memory_seconds = kSecondsForKnownRate;
  MeasuredRates rates;
  rates.dtype = dtype;
  const LoadOfOthers load;
  ASSIGN_OR_RETURN(rates.now, MeasureMachine(backend, options));
  rates.busy = load.Share() > kBusyShare;
  MachineRates kept = rates.busy ? MachineRates() : rates.now;
  if (options.memory_bytes < kBeyondCaches) kept.bytes_per_second = 0;  // it may be a cache's
  rates.best = KeepBestRates(BestRatesPath(), RatesName(backend, dtype), kept);
  rates.best.flops_per_second = std::max(rates.best.flops_per_second, rates.now.flops_per_second);
  rates.best.bytes_per_second = std::max(rates.best.bytes_per_second, rates.now.bytes_per_second);
  return rates;
}

absl::StatusOr<double> MeasureMatmulRate(Backend& backend, DType dtype) {
  const std::string name = RatesName(backend, dtype);
  const double known = KeepBestRates(BestRatesPath(), name, {}).flops_per_second;
  if (known > 0) return known;
  const LoadOfOthers load;
  ASSIGN_OR_RETURN(const double measured, MeasureMatmul(backend, WithinMemory({.dtype = dtype})));
  if (load.Share() <= kBusyShare) KeepBestRates(BestRatesPath(), name, {measured, 0});
  return measured;
}

absl::StatusOr<MachineRates> MeasureMatmulAgain(Backend& backend, DType dtype,
                                                const MachineRates& best) {
  MachineRates rates = best;
  ASSIGN_OR_RETURN(const double flops_per_second,
                   MeasureMatmul(backend, WithinMemory({.dtype = dtype})));
  if (flops_per_second <= best.flops_per_second) return rates;
  rates.flops_per_second = flops_per_second;
  KeepBestRates(BestRatesPath(), RatesName(backend, dtype), {flops_per_second, 0});
  return rates;
}

std::string RatesLine(const Backend& backend, const MeasuredRates& rates) {
  const MachineRates &best = rates.best, &now = rates.now;
  return absl::StrCat(
      RatesName(backend, rates.dtype), "; at best a matmul reaches ",
      RateText(FormatCount(best.flops_per_second, "FLOP/s"),
               FormatCount(now.flops_per_second, "FLOP/s"),
               now.flops_per_second / best.flops_per_second),
      ", memory ",
      RateText(BytesPerSecond(best.bytes_per_second), BytesPerSecond(now.bytes_per_second),
               now.bytes_per_second / best.bytes_per_second),
      rates.busy ? "; other processes keep cores busy" : "");
}

}  // namespace tessera
