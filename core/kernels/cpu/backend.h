// The cpu backend: fp32 on the processor's vectors, with oneDNN for the large products.
#ifndef TESSERA_CORE_KERNELS_CPU_BACKEND_H_
#define TESSERA_CORE_KERNELS_CPU_BACKEND_H_

#include <memory>

#include "core/kernels/interface/backend.h"

namespace tessera {

// Makes a backend whose processor has `threads` threads. If `threads` is 0, it has OpenMP's
// default: OMP_NUM_THREADS, or else the cores to which this process is bound. A kernel runs on the
// number of threads in its request, so the backends of several ranks in one process do not disturb
// each other.
std::unique_ptr<Backend> MakeCpuBackend(int threads);

}  // namespace tessera

#endif  // TESSERA_CORE_KERNELS_CPU_BACKEND_H_
