// A cache file of what was measured on machines, one section for each:
//
//   {
//     "format": 1,
//     "machines": {
//       "cpu: AMD EPYC, AVX2, 2 threads; family 25, model 1, stepping 1; L2 512K, L3 32768K": {
//         "libraries": "tessera 0.1.0, oneDNN 2.6.3",
//         "seconds": { ... }
//       }
//     }
//   }
//
// Machines that share a home folder share the file, and it may be copied to another machine: each
// uses what was measured on one like it, with the same libraries.
//
// Thread safety: every function may be called from any thread, and by several processes.
#ifndef TESSERA_CORE_COST_MACHINE_FILE_H_
#define TESSERA_CORE_COST_MACHINE_FILE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "core/cost/cache_file.h"
#include "core/kernels/interface/backend.h"

namespace tessera {

// A kind of such files.
struct MachineFile {
  const char* holds;   // for notes: "kernel times"
  const char* values;  // the field of a machine: "seconds"
  int64_t format = 1;
  CacheLimits limits;
};

struct MachineValues {
  CacheJson values = CacheJson::object();
  // Why the file has none for this machine, for the user; "" if it has some, or if there is no
  // file.
  std::string note;
};

// Returns the values of a machine like this one, with the same libraries. "" as the path: none.
MachineValues ReadMachineFile(const std::string& path, const MachineFile& kind,
                              const KernelCatalogue& catalogue);

// Changes the values of this machine by `change`. Values with other libraries are dropped first,
// and so is everything in a file of another format. Errors are those of UpdateCacheFile.
absl::Status UpdateMachineFile(const std::string& path, const MachineFile& kind,
                               const KernelCatalogue& catalogue,
                               const std::function<void(CacheJson& values)>& change);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_MACHINE_FILE_H_
