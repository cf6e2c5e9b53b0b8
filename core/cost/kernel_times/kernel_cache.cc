#include "core/cost/kernel_times/kernel_cache.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "core/cost/cache_file.h"
#include "core/cost/machine_file.h"

namespace tessera {
namespace {

// Room for the requests of hundreds of models.
constexpr MachineFile kFile = {.holds = "kernel times",
                               .values = "seconds",
                               .limits = {.bytes = size_t{16} << 20, .depth = 5}};
// No kernel takes longer than this.
constexpr double kMostSeconds = 1e6;

// Returns the times of one request; none if they are malformed.
CandidateSeconds FromJson(const CacheJson& candidates) {
  CandidateSeconds times;
  if (!candidates.is_object()) return times;
  for (const auto& [kernel, seconds] : candidates.items()) {
    const double value = seconds.is_number() ? static_cast<double>(seconds)
                         : seconds.is_null() ? std::numeric_limits<double>::infinity()
                                             : 0;
    const bool possible = value > 0 && (value <= kMostSeconds || seconds.is_null());
    // The default kernel, which is the first, always has a time.
    if (!possible || (times.empty() && std::isinf(value))) return {};
    times.push_back({kernel, value});
  }
  return times;
}

CacheJson ToJson(const CandidateSeconds& times) {
  CacheJson candidates = CacheJson::object();
  for (const KernelSeconds& time : times) {
    candidates[time.kernel] = std::isfinite(time.seconds) ? CacheJson(time.seconds) : CacheJson();
  }
  return candidates;
}

}  // namespace

std::string KernelCachePath() { return CachePath("kernels.json"); }

CachedKernelTimes ReadKernelCache(const std::string& path, const KernelCatalogue& catalogue) {
  CachedKernelTimes cached;
  MachineValues read = ReadMachineFile(path, kFile, catalogue);
  cached.note = std::move(read.note);
  for (const auto& [request, candidates] : read.values.items()) {
    CandidateSeconds times = FromJson(candidates);
    if (!times.empty()) cached.times.Set(request, std::move(times));
  }
  return cached;
}

absl::Status AddToKernelCache(const std::string& path, const KernelCatalogue& catalogue,
                              const KernelTimes& times) {
  return UpdateMachineFile(path, kFile, catalogue, [&](CacheJson& values) {
    for (const auto& [request, candidates] : times.requests()) {
      values[request] = ToJson(candidates);
    }
  });
}

}  // namespace tessera
