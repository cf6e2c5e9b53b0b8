// Chooses among several kernels for one request, by measuring them on this machine.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_KERNEL_SELECTION_H_
#define TESSERA_TOOLS_TRAIN_SETUP_KERNEL_SELECTION_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/cost/kernel_times/kernel_cache.h"
#include "core/cost/kernel_times/kernel_times.h"
#include "core/cost/kernel_times/measure_kernels.h"
#include "core/kernels/interface/backend.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// The values of --kernels.
inline constexpr char kMeasuredKernels[] = "measured", kDefaultKernels[] = "default";

// The kernel times that a process knows: those of the user's cache file, and those that it has
// measured itself. Rank 0 of a run has one, and the Plan that it completes tells the others which
// kernels to use. Not thread-safe.
class KernelSelection {
 public:
  // Reads the cache file unless `flag` is "default": then no times are known, and none is measured.
  // The backend must outlive the object.
  KernelSelection(const std::string& flag, Backend* backend);

  // Returns the choices by all times that are known; empty if there are none.
  KernelChoices Choices() const { return ChoicesBy(times_, *backend_); }

  struct Options {
    // Whether requests without times are measured. If not, they get default kernels.
    bool measure = false;
    int64_t memory_limit = 0;  // bytes for the run's arenas; 0: none
  };
  // Compiles a Plan by `compile`, with the choices that the Plan leaves open. If there are requests
  // without times, measures them, keeps the times in the file, and compiles with the new choices.
  // Measures nothing for a run whose steps are so short that no choice matters, and for one that
  // does not fit in memory. If the chosen kernels need more memory than the limit and the default
  // ones do not, uses those. `notes` receives notes for the user.
  absl::StatusOr<CompiledRun> Compile(
      Plan plan, const std::function<absl::StatusOr<CompiledRun>(const Plan& plan)>& compile,
      const Options& options, std::vector<std::string>* notes);

  // Returns a line for --plan_only, with its end: how many of a run's requests that several kernels
  // can run have one that was measured; "" if there are none.
  std::string Line(const CompiledRun& run) const;

 private:
  // Returns the requests of a run, compiled by `plan`, for which neither the Plan nor a time says
  // which kernel to use.
  std::vector<OpenChoice> MissingIn(const CompiledRun& run, const Plan& plan) const;
  // Measures requests of a run. Returns whether it has got times that may be used.
  bool Measure(const std::vector<OpenChoice>& missing, const CompiledRun& run,
               std::vector<std::string>* notes);

  Backend* backend_;
  const bool enabled_;
  const std::string path_;
  KernelTimes times_;
  std::string note_;  // about the file; reported when requests are measured
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_KERNEL_SELECTION_H_
