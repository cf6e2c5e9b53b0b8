// The reference backend: every operator in its simplest form, in double, on one thread. Numeric
// gradients are computed on it, and every other backend is compared with it.
#ifndef TESSERA_CORE_KERNELS_REFERENCE_BACKEND_H_
#define TESSERA_CORE_KERNELS_REFERENCE_BACKEND_H_

#include <memory>

#include "core/kernels/interface/backend.h"

namespace tessera {

// Makes a reference backend, which stores every floating tensor in f64.
std::unique_ptr<Backend> MakeReferenceBackend();

}  // namespace tessera

#endif  // TESSERA_CORE_KERNELS_REFERENCE_BACKEND_H_
