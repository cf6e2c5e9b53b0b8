// Keeps the best rates measured on this machine between runs. A single measurement is too low when
// other processes are busy, and a percentage of it would be meaningless.
//
// Thread safety: every function may be called from any thread.
#ifndef TESSERA_CORE_COST_BEST_RATES_H_
#define TESSERA_CORE_COST_BEST_RATES_H_

#include <string>

#include "core/cost/machine.h"

namespace tessera {

// Returns the file of this user: $XDG_CACHE_HOME/tessera/machine.json, where $XDG_CACHE_HOME is
// ~/.cache unless set. Returns "" if there is no home folder. The file may be deleted at any time.
std::string BestRatesPath();

// Returns the name of a machine in the file: "cpu: AMD EPYC, AVX3, 2 threads".
std::string MachineName(const Backend& backend);

// Returns for each rate the higher of `measured` and the file's rate of `machine`, and writes the
// file if `measured` is higher. A file that cannot be read or written is ignored.
MachineRates KeepBestRates(const std::string& path, const std::string& machine,
                           const MachineRates& measured);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_BEST_RATES_H_
