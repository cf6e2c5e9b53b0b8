// The times of collectives on this machine and its network, as measured: curves over their size.
#ifndef TESSERA_CORE_COST_PRICES_COLLECTIVE_CURVES_H_
#define TESSERA_CORE_COST_PRICES_COLLECTIVE_CURVES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/cost/prices/price_source.h"
#include "core/layout/traffic/collective_traffic.h"
#include "core/program/collective_request.h"

namespace tessera {

// The seconds of a collective, as the mean of the ranks of its group (core/cost/simulate_step.h).
struct CollectiveTimes {
  double alone = 0;   // while this rank computes nothing
  double beside = 0;  // while all ranks compute
  double taken = 0;   // by which that computation takes longer
};

struct CollectivePrice {
  CollectiveTimes times;
  PriceSource source = PriceSource::kDescribed;
};

// The ranks of a job, as far as they matter for the times of its collectives.
struct CurveRanks {
  int of_host = 1;      // on the host that has most of them
  int threads = 1;      // that compute in each of them
  std::string network;  // the name of the network between hosts (Cluster::network)
};

// Returns the name of the curve of an operation in a group, the key of its prices:
// "all-reduce of f32 (sum), shm, 2 ranks; 2 ranks of 1 thread on a host".
std::string CurveName(CollectiveOperation operation, DType dtype, Reduction reduction,
                      const GroupSite& site, const CurveRanks& ranks);

// Not thread-safe, except that const methods may run concurrently.
class CollectiveCurves {
 public:
  // A price is the median of so many last measurements.
  static constexpr size_t kKept = 5;

  // By the bytes of the full buffer, measurements from the oldest to the last; never empty.
  using Curve = std::map<int64_t, std::vector<CollectiveTimes>>;

  bool empty() const { return curves_.empty(); }
  const std::map<std::string, Curve>& curves() const { return curves_; }

  // Adds a measurement. `name` is a CurveName.
  void Add(const std::string& name, int64_t bytes, const CollectiveTimes& times);
  // Adds the measurements of `other`, as newer ones.
  void AddAll(const CollectiveCurves& other);

  // Returns the price of a collective of so many bytes; nothing if no size was measured. Between
  // two sizes, and beyond the last, the time alone is the described one times the ratio of measured
  // to described seconds, interpolated by the logarithm of the size; so are the ratios of the other
  // times to it.
  std::optional<CollectivePrice> Of(
      const std::string& name, int64_t bytes,
      const std::function<double(int64_t bytes)>& described_seconds) const;

 private:
  std::map<std::string, Curve> curves_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_COST_PRICES_COLLECTIVE_CURVES_H_
