#include "core/cost/kernel_times/kernel_cache.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/cost/best_rates.h"
#include "core/cost/cache_file.h"

namespace tessera {
namespace {

constexpr int64_t kFormat = 1;
constexpr char kFormatField[] = "format", kMachines[] = "machines", kLibraries[] = "libraries",
               kSeconds[] = "seconds";
// Room for the requests of hundreds of models.
constexpr CacheLimits kLimits = {.bytes = size_t{16} << 20, .depth = 5};
// No kernel takes longer than this.
constexpr double kMostSeconds = 1e6;

std::string MachineKey(const KernelCatalogue& catalogue) {
  return absl::StrCat(MachineName(catalogue), "; ", std::string(catalogue.Hardware()));
}

bool IsOfOurFormat(const CacheJson& file) {
  const auto format = file.find(kFormatField);
  const auto machines = file.find(kMachines);
  return format != file.end() && *format == kFormat && machines != file.end() &&
         machines->is_object();
}

bool HasLibraries(const CacheJson& machine, const std::string& libraries) {
  return machine.is_object() && machine.contains(kLibraries) && machine[kLibraries] == libraries &&
         machine.contains(kSeconds) && machine[kSeconds].is_object();
}

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
  if (path.empty()) return cached;
  const absl::StatusOr<CacheJson> file = ReadCacheFile(path, kLimits);
  if (!file.ok()) {
    cached.note = absl::StrCat(path, " is no file of kernel times: ", file.status().message());
    return cached;
  }
  if (file->empty()) return cached;
  if (!IsOfOurFormat(*file)) {
    cached.note = absl::StrCat(path, " is not of format ", kFormat, " of kernel times");
    return cached;
  }
  const CacheJson& machines = (*file)[kMachines];
  const auto machine = machines.find(MachineKey(catalogue));
  if (machine == machines.end()) {
    if (!machines.empty()) {
      cached.note = absl::StrCat("the kernel times in ", path, " are of other processors, such as ",
                                 machines.begin().key());
    }
    return cached;
  }
  if (!HasLibraries(*machine, catalogue.Libraries())) {
    cached.note = absl::StrCat("the kernel times in ", path,
                               " were measured with other versions than ", catalogue.Libraries());
    return cached;
  }
  for (const auto& [request, candidates] : (*machine)[kSeconds].items()) {
    CandidateSeconds times = FromJson(candidates);
    if (!times.empty()) cached.times.Set(request, std::move(times));
  }
  return cached;
}

absl::Status AddToKernelCache(const std::string& path, const KernelCatalogue& catalogue,
                              const KernelTimes& times) {
  return UpdateCacheFile(path, kLimits, [&](CacheJson& file) {
    if (!IsOfOurFormat(file)) {
      file = {{kFormatField, kFormat}, {kMachines, CacheJson::object()}};
    }
    CacheJson& machine = file[kMachines][MachineKey(catalogue)];
    const std::string libraries = catalogue.Libraries();
    if (!HasLibraries(machine, libraries)) {
      machine = {{kLibraries, libraries}, {kSeconds, CacheJson::object()}};
    }
    for (const auto& [request, candidates] : times.requests()) {
      machine[kSeconds][request] = ToJson(candidates);
    }
  });
}

}  // namespace tessera
