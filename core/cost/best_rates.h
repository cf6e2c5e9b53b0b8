// The best rates that this machine has shown, kept between runs: a single measurement is lower when
// other processes are busy, and then a share of it means nothing.
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

// Returns the better of `measured` and of the file's rates of `machine`, rate by rate, and writes
// the file if `measured` is better. A file that cannot be read or written is ignored.
MachineRates KeepBestRates(const std::string& path, const std::string& machine,
                           const MachineRates& measured);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_BEST_RATES_H_
