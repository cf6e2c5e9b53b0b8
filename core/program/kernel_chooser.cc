#include "core/program/kernel_chooser.h"

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

std::string ToStdString(absl::string_view text) { return std::string(text.data(), text.size()); }

}  // namespace

KernelChooser::KernelChooser(const Backend* backend, const KernelChoices& recorded)
    : backend_(backend), processor_(backend->processor()) {
  if (recorded.choices_size() == 0) return;
  if (recorded.backend() != ToStdString(backend->name()) ||
      recorded.processor() != processor_.name || recorded.threads() != processor_.threads) {
    note_ = absl::StrCat("the plan's kernels were chosen for ", recorded.backend(), " on ",
                         recorded.processor(), " with ", recorded.threads(),
                         " threads; default kernels are used on ", processor_.name, " with ",
                         processor_.threads);
    return;
  }
  for (const KernelChoice& choice : recorded.choices()) {
    recorded_[choice.request()] = choice.kernel();
  }
}

absl::StatusOr<const Kernel*> KernelChooser::Choose(const KernelRequest& request) {
  const std::string key = request.Key();
  auto [it, inserted] = chosen_.try_emplace(key, nullptr);
  if (!inserted) return it->second;
  auto recorded = recorded_.find(key);
  if (recorded != recorded_.end()) {
    for (const Kernel* kernel : CandidateKernels(*backend_, request)) {
      if (ToStdString(kernel->name()) == recorded->second) return it->second = kernel;
    }
    note_ =
        absl::StrCat("the plan names kernel '", recorded->second, "' for ", key,
                     ", which backend '", backend_->name(), "' does not have; the default is used");
  }
  absl::StatusOr<const Kernel*> kernel = DefaultKernel(*backend_, request);
  if (!kernel.ok()) {
    chosen_.erase(it);
    return kernel.status();
  }
  return it->second = *kernel;
}

bool KernelChooser::CanRun(const KernelRequest& request) const {
  return DefaultKernel(*backend_, request).ok();
}

}  // namespace tessera
