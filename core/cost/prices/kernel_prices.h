// The time of a Program's kernels and copies on this machine, as measured in steps that ran.
#ifndef TESSERA_CORE_COST_PRICES_KERNEL_PRICES_H_
#define TESSERA_CORE_COST_PRICES_KERNEL_PRICES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/cost/prices/price_source.h"
#include "core/cost/step_time.h"
#include "core/graph/operator.h"
#include "core/ids/table.h"
#include "core/program/program.h"
#include "core/tensor/dtype.h"

namespace tessera {

// The key of a kernel's price; prices of one machine need no more.
struct PricedWork {
  std::string request;  // KernelRequest::Key()
  std::string kernel;   // Kernel::name()
  // The ranks of this host that compute at the same time. They share caches and memory, and a core
  // may become slower when its neighbour works.
  int ranks = 1;

  friend bool operator<(const PricedWork& a, const PricedWork& b) {
    return std::tie(a.request, a.kernel, a.ranks) < std::tie(b.request, b.kernel, b.ranks);
  }
};

// The measurements of one kernel.
struct MeasuredWork {
  // By these, requests of other sizes are priced.
  std::string family;  // FamilyOf
  DType dtype = DType::kF32;
  OpCost cost;
  std::vector<int64_t> dimensions;  // DimensionsOf the request
  // The mean time of the instructions with this kernel, in one measured step after another; the
  // oldest first.
  std::vector<double> seconds;

  double Median() const;
};

// Returns the text for a copy, which stands for a request: "copy of 4096 bytes from device to
// offload host".
std::string CopyName(const Program& program, const Instruction& copy);

// Returns the part of a key that requests of other sizes share: what computes how on which dtypes,
// without shapes: "matmul transpose_b=true +gelu{} f32 f32 -> f32 threads=2 by onednn".
std::string FamilyOf(const PlannedKernel& kernel);

// Returns the dimensions of all inputs of a request, one after the other: of each that is no
// scalar, the product of all dimensions but the last, and the last.
std::vector<int64_t> DimensionsOf(const KernelRequest& request);

// Returns the seconds by which work is described (ComputationSeconds with a cluster's rates).
using DescribedSeconds = std::function<double(const OpCost& cost, DType dtype)>;

// Not thread-safe, except that const methods may run concurrently.
class KernelPrices {
 public:
  // A price is the median of so many last measurements, so that a step during which the machine was
  // slow or busy changes nothing.
  static constexpr size_t kKept = 5;

  bool empty() const { return works_.empty(); }
  const std::map<PricedWork, MeasuredWork>& works() const { return works_; }

  // Adds the mean time of a kernel's instructions in a step. `cost` is that of one of them.
  void Add(const PlannedKernel& kernel, int ranks, const OpCost& cost, DType dtype, double seconds);
  // Adds the times of a step of a Program, which ran while `ranks` ranks of this host computed.
  // Instructions that ran beside a collective, which took time from them, count only for a kernel
  // that never ran alone.
  void AddStep(const Program& program, const Table<InstructionId, TimeSpan>& times, int ranks);
  // The same for a step in which each collective ended before the next instruction began, whatever
  // its own time says. `seconds` are those of the step without its collectives; what is more than
  // the times of the instructions is the gap between them.
  void AddComputation(const Program& program, const Table<InstructionId, TimeSpan>& times,
                      double seconds, int ranks);
  // Sets what is known of one kernel, as read from a file.
  void Set(const PricedWork& work, MeasuredWork measured);
  // Adds the measurements of `other`, as newer ones.
  void AddAll(const KernelPrices& other);

  // Returns the price of the time between an instruction and the next.
  Price OfGap(int ranks) const;
  // Returns the price of a copy by its CopyName: `described`, if it was not measured.
  Price OfCopy(const std::string& copy, int ranks, double described) const;
  // Returns the price of one instruction. If the kernel has not run this request, the price is the
  // described one times the ratio of measured to described seconds of other requests of the
  // operator, interpolated by their dimensions and likeness (local_regression.h).
  Price Of(const PlannedKernel& kernel, int ranks, const OpCost& cost, DType dtype,
           const DescribedSeconds& described) const;

  // The same for a request whose kernel is not chosen yet: that of its fastest measured kernel, or
  // interpolated from all kernels that have run others of its kind.
  Price OfRequest(const KernelRequest& request, int ranks, const OpCost& cost, DType dtype,
                  const DescribedSeconds& described) const;

 private:
  // Adds the mean times of instructions. In the spans of `beside`, which are disjoint and in order,
  // collectives ran.
  void AddInstructions(const Program& program, const Table<InstructionId, TimeSpan>& times,
                       const std::vector<TimeSpan>& beside, int ranks);
  // Returns the work of this name, with room for one more measurement.
  MeasuredWork& WorkOf(const PricedWork& work);
  // Returns the ratio of measured to described seconds for a request and a kernel ("": any),
  // interpolated from all requests of its operator with as many threads and ranks, in which those
  // of the same family are the nearest; nothing if none was measured.
  std::optional<double> RatioOf(const KernelRequest& request, absl::string_view kernel, int ranks,
                                const DescribedSeconds& described) const;

  std::map<PricedWork, MeasuredWork> works_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_COST_PRICES_KERNEL_PRICES_H_
