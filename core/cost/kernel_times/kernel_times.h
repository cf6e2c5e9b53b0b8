// The time that each candidate kernel takes for a request, as measured on one processor.
#ifndef TESSERA_CORE_COST_KERNEL_TIMES_KERNEL_TIMES_H_
#define TESSERA_CORE_COST_KERNEL_TIMES_KERNEL_TIMES_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/kernels/interface/backend.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// The seconds of one kernel.
struct KernelSeconds {
  std::string kernel;  // Kernel::name()
  double seconds = 0;
};

// The measured candidates of one request, the default kernel first.
using CandidateSeconds = std::vector<KernelSeconds>;

// A kernel replaces the default one only if it takes less than this share of its time: a smaller
// difference may be chance, and another run would choose otherwise.
inline constexpr double kWorthChoosing = 0.97;

// Returns the kernel to choose: the fastest if it is much faster than the default, which is the
// first. The list must not be empty.
const KernelSeconds& BestOf(const CandidateSeconds& candidates);

// Not thread-safe, except that const methods may run concurrently.
class KernelTimes {
 public:
  // By KernelRequest::Key(), so that two files of equal times are equal.
  using ByRequest = std::map<std::string, CandidateSeconds>;

  const ByRequest& requests() const { return requests_; }
  bool empty() const { return requests_.empty(); }
  // Returns the times of a request; nullptr if they are not known.
  const CandidateSeconds* Find(const std::string& key) const;
  // Sets the times of a request, in place of former ones.
  void Set(const std::string& key, CandidateSeconds candidates);
  // Sets the times of all requests of `other`.
  void SetAll(const KernelTimes& other);

 private:
  ByRequest requests_;
};

// Returns whether the times are those of exactly these kernels, in this order. If not, kernels were
// added or removed since they were measured.
bool AreOf(const CandidateSeconds& times, const std::vector<const Kernel*>& candidates);

// Returns the choices by these times for the processor of `catalogue`.
KernelChoices ChoicesBy(const KernelTimes& times, const KernelCatalogue& catalogue);

// Returns whether both are for the same backend, processor and number of threads.
bool AreForTheSame(const KernelChoices& a, const KernelChoices& b);

// Adds to the choices of `plan` those of `preferred` for requests about which it says nothing. If
// the plan's choices are for another backend, processor or number of threads, they are replaced
// unless `preferred` is empty.
void FillInKernels(const KernelChoices& preferred, Plan& plan);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_KERNEL_TIMES_KERNEL_TIMES_H_
