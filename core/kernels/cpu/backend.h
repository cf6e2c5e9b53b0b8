// The cpu backend: fp32 on the processor's vectors, with oneDNN for the large products.
#ifndef TESSERA_CORE_KERNELS_CPU_BACKEND_H_
#define TESSERA_CORE_KERNELS_CPU_BACKEND_H_

#include <memory>

#include "core/kernels/interface/backend.h"

namespace tessera {

// A backend whose processor has `threads` threads, or as many as OpenMP takes by itself where that
// is 0: OMP_NUM_THREADS, else the cores that this process is bound to. A kernel runs on as many
// threads as its request says, so several backends, of ranks that are threads of one
// process, do not disturb each other.
std::unique_ptr<Backend> MakeCpuBackend(int threads);

}  // namespace tessera

#endif  // TESSERA_CORE_KERNELS_CPU_BACKEND_H_
