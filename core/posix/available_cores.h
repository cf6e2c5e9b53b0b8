// The number of cores that this process can use.
#ifndef TESSERA_CORE_POSIX_AVAILABLE_CORES_H_
#define TESSERA_CORE_POSIX_AVAILABLE_CORES_H_

#include <string>

namespace tessera {

// Cores that this process may run on (its affinity), or that the quotas of its control groups allow
// it to keep busy, if they are fewer. At least 1; a fraction of a core is not counted. `root`
// stands for "/" in tests.
//
// Thread safety: may be called from any thread.
int AvailableCores(const std::string& root = "");

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_AVAILABLE_CORES_H_
