// The file in which measured prices are kept between runs, one for each user
// (core/cost/machine_file.h). A machine's values are
//
//   "prices": {
//     "kernels": {
//       "gelu{approximate=\"tanh\"} f32[1024, 3072] -> f32[1024, 3072] threads=2": {
//         "highway, 1 rank": {
//           "family": "gelu approximate=tanh f32 -> f32 threads=2 by highway",
//           "dtype": "f32", "flops": 2.5e7, "bytes": 2.5e7, "dimensions": [1024, 3072],
//           "seconds": [0.0031, 0.0030, 0.0032]
//         }
//       }
//     },
//     "collectives": {
//       "all-gather of f32, shm, 2 ranks; 2 ranks of 1 thread on a host": {
//         "1048576": [[0.00013, 0.00021, 0.00012]]
//       }
//     }
//   }
//
// A collective's times are, by the bytes of its full buffer and from the oldest measurement to the
// last: alone, beside computation, and taken from that.
//
// Thread safety: every function may be called from any thread, and by several processes.
#ifndef TESSERA_CORE_COST_PRICES_PRICE_FILE_H_
#define TESSERA_CORE_COST_PRICES_PRICE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "core/cost/prices/measured_prices.h"
#include "core/kernels/interface/backend.h"

namespace tessera {

// Returns the file of this user (core/cost/cache_file.h): prices.json. "" if there is no home
// folder.
std::string PriceFilePath();

struct PricesOfFile {
  MeasuredPrices prices;
  std::string note;  // MachineValues::note
};

// Returns what was measured on a machine like this one, with the same libraries. Entries that no
// measurement can have made are left out.
PricesOfFile ReadPriceFile(const std::string& path, const KernelCatalogue& catalogue);

// Adds measurements to those of the file, as newer ones (KernelPrices::kKept).
absl::Status AddToPriceFile(const std::string& path, const KernelCatalogue& catalogue,
                            const MeasuredPrices& measured);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_PRICES_PRICE_FILE_H_
