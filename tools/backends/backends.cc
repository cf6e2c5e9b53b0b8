#include "tools/backends/backends.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/kernels/cpu/backend.h"
#include "core/kernels/reference/backend.h"

namespace tessera {
namespace {

struct Entry {
  const char* name;
  std::unique_ptr<Backend> (*make)(int threads);
};

constexpr Entry kBackends[] = {
    {"cpu", [](int threads) { return MakeCpuBackend(threads); }},
    {"reference", [](int) { return MakeReferenceBackend(); }},
};

}  // namespace

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kBackends) names.emplace_back(entry.name);
  return names;
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(absl::string_view name, int threads) {
  for (const Entry& entry : kBackends) {
    if (entry.name != name) continue;
    std::unique_ptr<Backend> backend = entry.make(threads);
    if (backend->processor().threads <= kMaxThreads) return backend;
    return absl::InvalidArgumentError(
        absl::StrCat(threads > 0 ? "threads is " : "OMP_NUM_THREADS is ",
                     backend->processor().threads, ": it must be at most ", kMaxThreads));
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no device '", name, "': devices are ",
                                                 absl::StrJoin(BackendNames(), ", ")));
}

}  // namespace tessera
