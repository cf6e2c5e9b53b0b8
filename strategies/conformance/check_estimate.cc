#include "strategies/conformance/check_estimate.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/text/human_units.h"

namespace tessera {
namespace {

// By what is counted: "calls of all-reduce along data".
using Counts = std::map<std::string, int64_t>;

// Returns everything in a cost that is exact: calls, and bytes sent, copied and in memory.
Counts CountsOf(const StepCost& cost) {
  Counts counts;
  for (const StepCost::Collective& collective : cost.collectives()) {
    std::vector<std::string> axes(collective.mesh_axes().begin(), collective.mesh_axes().end());
    std::sort(axes.begin(), axes.end());
    const std::string name =
        absl::StrCat(collective.operation(), " along ", absl::StrJoin(axes, ", "));
    counts[absl::StrCat("calls of ", name)] += collective.calls();
    counts[absl::StrCat("bytes sent by ", name)] += collective.bytes();
  }
  for (const StepCost::Memory& memory : cost.memory()) {
    counts[absl::StrCat("bytes of memory for ", memory.category(),
                        memory.on_host() ? " on the host" : "")] += memory.bytes();
  }
  for (const StepCost::HostCopies& copies : cost.host_copies()) {
    const std::string direction = copies.to_host() ? "to the host" : "from the host";
    counts[absl::StrCat("copies ", direction)] += copies.calls();
    counts[absl::StrCat("bytes copied ", direction)] += copies.bytes();
  }
  counts["bytes of memory at the peak"] = cost.peak_bytes();
  return counts;
}

// A step may be shorter than its computation by rounding errors.
constexpr double kRounding = 1e-6;

}  // namespace

absl::Status CheckEstimate(const StepCost& estimate, const StepCost& of_host) {
  Counts estimated = CountsOf(estimate), planned = CountsOf(of_host);
  for (const auto& [name, unused] : estimated) planned.try_emplace(name, 0);
  for (const auto& [name, count] : planned) {
    if (estimated[name] == count) continue;
    return absl::InternalError(
        absl::StrCat("its estimate says ", estimated[name], " ", name, "; its Plan has ", count));
  }
  const double least = of_host.computation_seconds();
  if (estimate.step_seconds() < least * (1 - kRounding) || estimate.step_seconds() == 0) {
    return absl::InternalError(
        absl::StrCat("its estimate says that a step takes ", estimate.step_seconds(),
                     " s, and the computation alone takes ", least, " s at the host's prices"));
  }
  if (estimate.exposed_seconds() > estimate.step_seconds() * (1 + kRounding)) {
    return absl::InternalError(absl::StrCat("its estimate says that only communication runs for ",
                                            FormatSeconds(estimate.exposed_seconds()),
                                            " of a step of ",
                                            FormatSeconds(estimate.step_seconds())));
  }
  return absl::OkStatus();
}

}  // namespace tessera
