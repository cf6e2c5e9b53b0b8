// Keeps the best rates measured on this machine between runs. A single measurement is too low when
// other processes are busy, and a percentage of it would be meaningless.
//
// Thread safety: every function may be called from any thread.
#ifndef TESSERA_CORE_COST_BEST_RATES_H_
#define TESSERA_CORE_COST_BEST_RATES_H_

#include <string>

#include "core/cost/machine.h"

namespace tessera {

// Returns the file of this user (cache_file.h): machine.json. "" if there is no home folder.
std::string BestRatesPath();

// Returns the name of a machine in the file: "cpu: AMD EPYC, AVX3, 2 threads".
std::string MachineName(const KernelCatalogue& catalogue);

// The highest rates that are taken from a file. No machine comes near: a rack of 72 of the fastest
// processors reaches 1e18 FLOP/s and 6e14 bytes/s. A higher rate is a damaged or forged one, by
// which every share of a limit would be 0.
inline constexpr double kHighestFlopsPerSecond = 1e20;
inline constexpr double kHighestBytesPerSecond = 1e17;

// Returns for each rate the higher of `measured` and the file's rate of `machine`, and writes the
// file if `measured` is higher. A rate of the file that is not above 0, or above the highest, is
// ignored and replaced. A file that cannot be read or written is ignored, and so is one that is not
// a regular file. What is written is a new file, which replaces the former one.
MachineRates KeepBestRates(const std::string& path, const std::string& machine,
                           const MachineRates& measured);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_BEST_RATES_H_
