// The cores that this process can use. A hardware thread counts as a core, as it does for the
// system.
#ifndef TESSERA_CORE_POSIX_AVAILABLE_CORES_H_
#define TESSERA_CORE_POSIX_AVAILABLE_CORES_H_

#include <string>
#include <vector>

namespace tessera {

// Returns the number of cores on which this process may run (its affinity), or the number that the
// quotas of its control groups allow it to keep busy, if that is lower. At least 1; a fraction of a
// core is not counted. `root` stands for "/" in tests.
//
// Thread safety: the functions here may be called from any thread.
int AvailableCores(const std::string& root = "");

// Returns the numbers of the cores on which this process may run (its affinity), in ascending
// order; empty if the system does not report them.
std::vector<int> AllowedCores();

// Sorts cores by package, then by memory node, then by physical core, so that the hardware threads
// of a physical core are adjacent.
void SortByTopology(std::vector<int>* cores, const std::string& root = "");

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_AVAILABLE_CORES_H_
