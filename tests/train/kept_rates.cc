#include "tests/train/kept_rates.h"

#include "core/cost/best_rates.h"
#include "core/kernels/cpu/backend.h"
#include "core/posix/available_cores.h"
#include "core/tensor/dtype.h"
#include "tools/train/setup/machine_rates.h"

namespace tessera {

void KeepRates(const std::string& cache) {
  constexpr double kFlopsPerSecond = 2e11, kBytesPerSecond = 4e10;  // of a core
  const int cores = static_cast<int>(AllowedCores().size());
  for (int threads = 1; threads <= cores; ++threads) {
    const auto backend = MakeCpuBackend(threads);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      KeepBestRates(cache + "/tessera/machine.json", RatesName(*backend, dtype),
                    {threads * kFlopsPerSecond, threads * kBytesPerSecond});
    }
  }
}

}  // namespace tessera
