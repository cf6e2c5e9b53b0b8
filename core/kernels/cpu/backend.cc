#include "core/kernels/cpu/backend.h"

#include <omp.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/kernels/cpu/targets.h"
// After the above.
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/onednn_product.h"
#include "core/kernels/host/host_backend.h"
#include "core/text/version.h"
#include "hwy/highway.h"

namespace tessera {
namespace {

// Returns the value of a field of the first processor in /proc/cpuinfo: "AMD EPYC" of "model name :
// AMD EPYC". "" if it is not there.
std::string CpuInfo(absl::string_view field) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const absl::string_view text = line;
    if (absl::StripAsciiWhitespace(text.substr(0, colon)) == field) {
      return std::string(absl::StripAsciiWhitespace(text.substr(colon + 1)));
    }
  }
  return "";
}

std::string ModelName() {
  const std::string name = CpuInfo("model name");
  return name.empty() ? "unknown processor" : name;
}

// Returns the caches of the first core that hold data: "L1 32K, L2 512K, L3 32768K".
std::string Caches() {
  std::vector<std::string> caches;
  for (int i = 0;; ++i) {
    const std::string folder = absl::StrCat("/sys/devices/system/cpu/cpu0/cache/index", i);
    std::string level, type, size;
    std::ifstream(folder + "/level") >> level;
    std::ifstream(folder + "/type") >> type;
    std::ifstream(folder + "/size") >> size;
    if (level.empty()) break;
    if (type != "Instruction") caches.push_back(absl::StrCat("L", level, " ", size));
  }
  return absl::StrJoin(caches, ", ");
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
  std::string Hardware() const override {
    return absl::StrCat("family ", CpuInfo("cpu family"), ", model ", CpuInfo("model"),
                        ", stepping ", CpuInfo("stepping"), "; ", Caches());
  }
  std::string Libraries() const override {
    return absl::StrCat("tessera ", kVersion, ", ", cpu::OnednnVersion());
  }

 private:
  Processor processor_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend(int threads) {
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace tessera
