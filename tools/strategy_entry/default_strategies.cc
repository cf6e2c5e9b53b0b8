#include "tools/strategy_entry/default_strategies.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/text/human_units.h"
#include "core/train/ranks/memory_limit.h"
#include "strategies/host/find_plugin.h"

namespace tessera {
namespace {

constexpr absl::string_view kSearches = "osdp";

}  // namespace

std::vector<StrategyEntry> DefaultStrategies() {
  std::vector<StrategyEntry> entries;
  for (const absl::string_view name : BundledStrategies()) {
    entries.push_back({.label = std::string(name),
                       .name = std::string(name),
                       .options = {},
                       .limit_between = name == kSearches});
  }
  return entries;
}

DerivedLimit LimitBetween(absl::Span<const PlannedPeak> planned) {
  if (planned.size() < 2) {
    return {0, "it has no memory limit of its own, because there are no two peaks to lie between"};
  }
  const PlannedPeak &first = planned[0], &second = planned[1];
  const int64_t bytes = first.bytes + (second.bytes - first.bytes) / 2;
  return {bytes, absl::StrCat("its memory limit is ", SmallestLimit(bytes),
                              ", half way between the peaks of ", first.label, " (",
                              FormatBytes(first.bytes), ") and ", second.label, " (",
                              FormatBytes(second.bytes), ")")};
}

}  // namespace tessera
