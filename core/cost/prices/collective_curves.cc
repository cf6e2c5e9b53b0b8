#include "core/cost/prices/collective_curves.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/cost/median.h"
#include "core/text/counted.h"

namespace tessera {
namespace {

// Returns the lengths of the runs of ranks on the same host: "2+2".
std::string RunsOf(const std::vector<int>& host_of) {
  std::vector<int> runs;
  for (size_t rank = 0; rank < host_of.size(); ++rank) {
    if (rank == 0 || host_of[rank] != host_of[rank - 1]) runs.push_back(0);
    ++runs.back();
  }
  return absl::StrJoin(runs, "+");
}

// Returns how the ranks of a group are connected: hierarchical groups on one host, or with one rank
// on each host, work as those of the backends below.
std::string ConnectionOf(const GroupSite& site, int hosts) {
  CollectiveBackend backend = site.backend;
  if (backend == CollectiveBackend::kHierarchical) {
    if (hosts == 1) backend = CollectiveBackend::kShm;
    if (hosts == site.size()) backend = CollectiveBackend::kTcp;
  }
  switch (backend) {
    case CollectiveBackend::kShm:
      return "shm";
    case CollectiveBackend::kTcp:
      return "tcp";
    case CollectiveBackend::kHierarchical:
      return "hierarchical";
    case CollectiveBackend::kNccl:
      return "nccl";
  }
  return "";
}

double MedianOf(const std::vector<CollectiveTimes>& measured, double CollectiveTimes::*time) {
  std::vector<double> values;
  values.reserve(measured.size());
  for (const CollectiveTimes& times : measured) values.push_back(times.*time);
  return tessera::MedianOf(values);
}

CollectiveTimes MedianOf(const std::vector<CollectiveTimes>& measured) {
  return {MedianOf(measured, &CollectiveTimes::alone), MedianOf(measured, &CollectiveTimes::beside),
          MedianOf(measured, &CollectiveTimes::taken)};
}

void DropOldest(std::vector<CollectiveTimes>& measured) {
  if (measured.size() <= CollectiveCurves::kKept) return;
  const size_t dropped = measured.size() - CollectiveCurves::kKept;
  measured.erase(measured.begin(), measured.begin() + static_cast<int64_t>(dropped));
}

}  // namespace

std::string CurveName(CollectiveOperation operation, DType dtype, Reduction reduction,
                      const GroupSite& site, const CurveRanks& ranks) {
  const bool reduces = operation == CollectiveOperation::kAllReduce ||
                       operation == CollectiveOperation::kReduceScatter;
  const int hosts =
      site.host_of.empty() ? 1 : 1 + *std::max_element(site.host_of.begin(), site.host_of.end());
  const std::string place = hosts == 1
                                ? Counted(site.size(), "rank")
                                : absl::StrCat(RunsOf(site.host_of), " ranks on ", hosts, " hosts",
                                               ranks.network.empty() ? "" : " of ", ranks.network);
  return absl::StrCat(
      std::string(CollectiveOperationName(operation)), " of ", std::string(DTypeName(dtype)),
      !reduces                       ? ""
      : reduction == Reduction::kMax ? " (max)"
                                     : " (sum)",
      ", ", ConnectionOf(site, hosts), ", ", place, "; ", Counted(ranks.of_host, "rank"), " of ",
      Counted(ranks.threads, "thread"), " on a host");
}

void CollectiveCurves::Add(const std::string& name, int64_t bytes, const CollectiveTimes& times) {
  std::vector<CollectiveTimes>& measured = curves_[name][bytes];
  measured.push_back(times);
  DropOldest(measured);
}

void CollectiveCurves::AddAll(const CollectiveCurves& other) {
  for (const auto& [name, curve] : other.curves_) {
    for (const auto& [bytes, measured] : curve) {
      std::vector<CollectiveTimes>& all = curves_[name][bytes];
      all.insert(all.end(), measured.begin(), measured.end());
      DropOldest(all);
    }
  }
}

std::optional<CollectivePrice> CollectiveCurves::Of(
    const std::string& name, int64_t bytes,
    const std::function<double(int64_t bytes)>& described_seconds) const {
  const auto found = curves_.find(name);
  if (found == curves_.end()) return std::nullopt;
  const Curve& curve = found->second;
  const auto next = curve.lower_bound(bytes);
  if (next != curve.end() && next->first == bytes) {
    return CollectivePrice{MedianOf(next->second), PriceSource::kMeasured};
  }
  const auto upper = next == curve.end() ? std::prev(next) : next;
  const auto lower = next == curve.begin() ? next : std::prev(next);
  const auto logarithm = [](int64_t size) { return std::log(static_cast<double>(size) + 1); };
  const double weight = upper == lower ? 0
                                       : (logarithm(bytes) - logarithm(lower->first)) /
                                             (logarithm(upper->first) - logarithm(lower->first));
  const auto between = [&](auto ratio) {
    return (1 - weight) * ratio(lower->first, MedianOf(lower->second)) +
           weight * ratio(upper->first, MedianOf(upper->second));
  };
  CollectiveTimes times;
  times.alone = described_seconds(bytes) * between([&](int64_t size, const CollectiveTimes& of) {
                  return of.alone / described_seconds(size);
                });
  times.beside = times.alone * between([](int64_t /*size*/, const CollectiveTimes& of) {
                   return of.beside / of.alone;
                 });
  times.taken = times.alone * between([](int64_t /*size*/, const CollectiveTimes& of) {
                  return of.taken / of.alone;
                });
  return CollectivePrice{times, PriceSource::kInterpolated};
}

}  // namespace tessera
