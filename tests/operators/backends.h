// The one list of the backends that are compared with the reference.
#ifndef TESSERA_TESTS_OPERATORS_BACKENDS_H_
#define TESSERA_TESTS_OPERATORS_BACKENDS_H_

#include <memory>
#include <utility>
#include <vector>

#include "core/kernels/cpu/backend.h"
#include "core/kernels/interface/backend.h"

namespace tessera::operator_tests {

// Up to this many threads; a request may ask for fewer.
inline constexpr int kMostThreads = 3;

inline std::vector<std::unique_ptr<Backend>> BackendsUnderTest() {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(MakeCpuBackend(kMostThreads));
  return backends;
}

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_BACKENDS_H_
