#include "core/cost/prices/price_file.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/cost/machine_file.h"
#include "core/text/counted.h"

namespace tessera {
namespace {

// Room for the requests of hundreds of models.
constexpr MachineFile kFile = {.holds = "prices",
                               .values = "prices",
                               .format = 4,
                               .limits = {.bytes = size_t{64} << 20, .depth = 8}};
constexpr char kKernels[] = "kernels", kCollectives[] = "collectives";
// No kernel takes longer, and no work is larger.
constexpr double kMostSeconds = 1e6;
constexpr double kMostWork = 1e30;

// "highway, 2 ranks"
std::string NameOf(const PricedWork& work) {
  return absl::StrCat(work.kernel, ", ", Counted(work.ranks, "rank"));
}

// Sets the kernel and the ranks from such a name. Returns whether it is one.
bool ReadName(const std::string& name, PricedWork& work) {
  const std::vector<std::string> parts = absl::StrSplit(name, ", ");
  if (parts.size() != 2) return false;
  const std::vector<std::string> counted = absl::StrSplit(parts[1], ' ');
  work.kernel = parts[0];
  return absl::SimpleAtoi(counted[0], &work.ranks) && work.ranks > 0;
}

// Returns a number of an object; -1 if it has none of this name that is at most `most`.
double NumberOf(const CacheJson& values, const char* name, double most) {
  const auto found = values.find(name);
  if (found == values.end() || !found->is_number()) return -1;
  const auto number = static_cast<double>(*found);
  return number >= 0 && number <= most ? number : -1;
}

// Returns the text of an object; "" if there is none of this name.
std::string TextOf(const CacheJson& values, const char* name) {
  const auto found = values.find(name);
  return found != values.end() && found->is_string() ? std::string(*found) : "";
}

// Returns nothing if the values are malformed.
std::optional<MeasuredWork> FromJson(const CacheJson& values) {
  if (!values.is_object()) return std::nullopt;
  MeasuredWork work;
  work.family = TextOf(values, "family");
  const auto dtype = ParseDType(TextOf(values, "dtype"));
  work.cost.flops = NumberOf(values, "flops", kMostWork);
  work.cost.bytes = NumberOf(values, "bytes", kMostWork);
  const auto seconds = values.find("seconds");
  if (work.family.empty() || !dtype.ok() || work.cost.flops < 0 || work.cost.bytes < 0 ||
      seconds == values.end() || !seconds->is_array() || seconds->empty() ||
      seconds->size() > KernelPrices::kKept) {
    return std::nullopt;
  }
  work.dtype = *dtype;
  const auto dimensions = values.find("dimensions");
  if (dimensions == values.end() || !dimensions->is_array()) return std::nullopt;
  for (const CacheJson& each : *dimensions) {
    if (!each.is_number_unsigned()) return std::nullopt;
    work.dimensions.push_back(static_cast<int64_t>(each));
  }
  for (const CacheJson& each : *seconds) {
    const double value = each.is_number() ? static_cast<double>(each) : 0;
    if (!(value > 0 && value <= kMostSeconds)) return std::nullopt;
    work.seconds.push_back(value);
  }
  return work;
}

CacheJson ToJson(const MeasuredWork& work) {
  const absl::string_view dtype = DTypeName(work.dtype);
  CacheJson values = CacheJson::object();
  values["family"] = work.family;
  values["dtype"] = std::string(dtype.data(), dtype.size());
  values["flops"] = work.cost.flops;
  values["bytes"] = work.cost.bytes;
  values["dimensions"] = work.dimensions;
  values["seconds"] = work.seconds;
  return values;
}

// Returns an object of an object; an empty one if it has none of this name.
CacheJson ObjectOf(const CacheJson& values, const char* name) {
  const auto found = values.find(name);
  return found != values.end() && found->is_object() ? *found : CacheJson::object();
}

KernelPrices KernelsFrom(const CacheJson& values) {
  KernelPrices prices;
  for (const auto& [request, kernels] : values.items()) {
    if (!kernels.is_object()) continue;
    for (const auto& [name, measured] : kernels.items()) {
      PricedWork work = {request, "", 1};
      std::optional<MeasuredWork> read = FromJson(measured);
      if (ReadName(name, work) && read.has_value()) prices.Set(work, *std::move(read));
    }
  }
  return prices;
}

CacheJson ToJson(const KernelPrices& prices) {
  CacheJson values = CacheJson::object();
  for (const auto& [work, kept] : prices.works()) {
    values[work.request][NameOf(work)] = ToJson(kept);
  }
  return values;
}

// Returns nothing unless the value is a list of times that can be.
std::optional<CollectiveTimes> TimesFrom(const CacheJson& value) {
  if (!value.is_array() || value.size() != 3) return std::nullopt;
  double seconds[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (!value[i].is_number()) return std::nullopt;
    seconds[i] = static_cast<double>(value[i]);
    if (!(seconds[i] >= 0 && seconds[i] <= kMostSeconds)) return std::nullopt;
  }
  if (!(seconds[0] > 0)) return std::nullopt;
  return CollectiveTimes{seconds[0], seconds[1], seconds[2]};
}

CollectiveCurves CollectivesFrom(const CacheJson& values) {
  CollectiveCurves prices;
  for (const auto& [name, curve] : values.items()) {
    if (!curve.is_object()) continue;
    for (const auto& [size, measured] : curve.items()) {
      int64_t bytes = 0;
      if (!absl::SimpleAtoi(size, &bytes) || bytes < 0 || !measured.is_array()) continue;
      for (const CacheJson& each : measured) {
        const std::optional<CollectiveTimes> times = TimesFrom(each);
        if (times.has_value()) prices.Add(name, bytes, *times);
      }
    }
  }
  return prices;
}

CacheJson ToJson(const CollectiveCurves& prices) {
  CacheJson values = CacheJson::object();
  for (const auto& [name, curve] : prices.curves()) {
    for (const auto& [bytes, measured] : curve) {
      CacheJson& list = values[name][absl::StrCat(bytes)] = CacheJson::array();
      for (const CollectiveTimes& times : measured) {
        list.push_back(CacheJson::array({times.alone, times.beside, times.taken}));
      }
    }
  }
  return values;
}

MeasuredPrices FromValues(const CacheJson& values) {
  return {KernelsFrom(ObjectOf(values, kKernels)), CollectivesFrom(ObjectOf(values, kCollectives))};
}

}  // namespace

std::string PriceFilePath() { return CachePath("prices.json"); }

PricesOfFile ReadPriceFile(const std::string& path, const KernelCatalogue& catalogue) {
  MachineValues read = ReadMachineFile(path, kFile, catalogue);
  return {FromValues(read.values), std::move(read.note)};
}

absl::Status AddToPriceFile(const std::string& path, const KernelCatalogue& catalogue,
                            const MeasuredPrices& measured) {
  return UpdateMachineFile(path, kFile, catalogue, [&measured](CacheJson& values) {
    MeasuredPrices prices = FromValues(values);
    prices.AddAll(measured);
    values = {{kKernels, ToJson(prices.kernels)}, {kCollectives, ToJson(prices.collectives)}};
  });
}

}  // namespace tessera
