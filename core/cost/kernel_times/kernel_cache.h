// The file in which measured kernel times are kept between runs, one for each user
// (core/cost/machine_file.h). A machine's values are
//
//   "seconds": {
//     "matmul{} f32[1024, 768] f32[768, 3072] -> f32[1024, 3072] threads=2":
//       {"onednn": 0.0251, "onednn_gemm": 0.0255}
//   }
//
// null stands for a kernel that may not be chosen.
//
// Thread safety: every function may be called from any thread, and by several processes.
#ifndef TESSERA_CORE_COST_KERNEL_TIMES_KERNEL_CACHE_H_
#define TESSERA_CORE_COST_KERNEL_TIMES_KERNEL_CACHE_H_

#include <string>

#include "absl/status/status.h"
#include "core/cost/kernel_times/kernel_times.h"
#include "core/kernels/interface/backend.h"

namespace tessera {

// Returns the file of this user (core/cost/cache_file.h): kernels.json. "" if there is no home
// folder.
std::string KernelCachePath();

struct CachedKernelTimes {
  KernelTimes times;
  // Why the file has no times for this machine, for the user; "" if it has some, or if there is no
  // file.
  std::string note;
};

// Returns the times that were measured on a machine like this one, with the same libraries.
// Requests with times that no kernel can have are left out.
CachedKernelTimes ReadKernelCache(const std::string& path, const KernelCatalogue& catalogue);

// Adds times of this machine to the file, in place of former ones for the same requests. Times
// with other libraries are dropped, and so is everything in a file of another format.
absl::Status AddToKernelCache(const std::string& path, const KernelCatalogue& catalogue,
                              const KernelTimes& times);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_KERNEL_TIMES_KERNEL_CACHE_H_
