#include "core/kernels/cpu/backend.h"

#include <omp.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/kernels/cpu/targets.h"
// After the above.
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/onednn_product.h"
#include "core/kernels/host/host_backend.h"
#include "hwy/highway.h"

namespace tessera {
namespace {

// "AMD EPYC" of /proc/cpuinfo's "model name : AMD EPYC".
std::string ModelName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (absl::StartsWith(line, "model name") && colon != std::string::npos) {
      const absl::string_view name =
          absl::StripAsciiWhitespace(absl::string_view(line).substr(colon + 1));
      return std::string(name.data(), name.size());
    }
  }
  return "unknown processor";
}

// Returns the best target for which the vector kernels are compiled; lower bits are better.
const char* VectorTarget() {
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(targets & -targets);
}

class CpuBackend : public HostBackend {
 public:
  explicit CpuBackend(int threads)
      : processor_{absl::StrCat(ModelName(), ", ", VectorTarget(),
                                cpu::MultipliesBFloat16() ? "+BF16" : ""),
                   threads > 0 ? threads : omp_get_max_threads()} {}

  absl::string_view name() const override { return "cpu"; }
  absl::Span<const Kernel* const> kernels() const override { return cpu::Kernels(); }
  Processor processor() const override { return processor_; }

 private:
  Processor processor_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(int threads) {
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace tessera
