// Chooses the kernel of each request: the one that a Plan names, else the default.
#ifndef TESSERA_CORE_PROGRAM_KERNEL_CHOOSER_H_
#define TESSERA_CORE_PROGRAM_KERNEL_CHOOSER_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "core/kernels/interface/backend.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Asks the backend once for each request. Not thread-safe.
class KernelChooser {
 public:
  // Choices that were made for another backend, processor or number of threads are not used, and
  // note() says so.
  KernelChooser(const Backend* backend, const KernelChoices& recorded);

  // NotFound if the backend has no kernel for the request.
  absl::StatusOr<const Kernel*> Choose(const KernelRequest& request);
  // Whether some kernel accepts the request; remembers nothing.
  bool CanRun(const KernelRequest& request) const;

  // "" or a line for the user.
  const std::string& note() const { return note_; }

  const Backend& backend() const { return *backend_; }
  const Processor& processor() const { return processor_; }

 private:
  const Backend* backend_;
  Processor processor_;
  std::map<std::string, std::string> recorded_;
  std::map<std::string, const Kernel*> chosen_;
  std::string note_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_KERNEL_CHOOSER_H_
