// The one list of backends.
#ifndef TESSERA_TOOLS_BACKENDS_BACKENDS_H_
#define TESSERA_TOOLS_BACKENDS_BACKENDS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/kernels/interface/backend.h"

namespace tessera {

// Returns the names of all backends, the default first.
std::vector<std::string> BackendNames();

// The most threads of a backend: a team of ten thousands overflows the stack that OpenMP starts it
// from.
inline constexpr int kMaxThreads = 4096;

// Makes a backend. `threads` = 0 means OMP_NUM_THREADS, or all cores that this process may use.
// InvalidArgument for a name that is not in the list, and for more than kMaxThreads.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view name, int threads);

}  // namespace tessera

#endif  // TESSERA_TOOLS_BACKENDS_BACKENDS_H_
