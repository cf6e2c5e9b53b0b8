// The cores that this process can use. A hardware thread counts as a core, as for the system.
#ifndef TESSERA_CORE_POSIX_AVAILABLE_CORES_H_
#define TESSERA_CORE_POSIX_AVAILABLE_CORES_H_

#include <string>
#include <vector>

namespace tessera {

// Cores that this process may run on (its affinity), or that the quotas of its control groups allow
// it to keep busy, if they are fewer. At least 1; a fraction of a core is not counted. `root`
// stands for "/" in tests.
//
// Thread safety: the functions here may be called from any thread.
int AvailableCores(const std::string& root = "");

// Returns the numbers of the cores that this process may run on (its affinity), in ascending order;
// none if the system does not tell.
std::vector<int> AllowedCores();

// Sorts cores so that those of one package, in it those of one memory node, and in that the
// hardware threads of one physical core stand beside each other.
void SortByTopology(std::vector<int>* cores, const std::string& root = "");

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_AVAILABLE_CORES_H_
