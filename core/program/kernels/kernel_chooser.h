// Chooses the kernel for each request: the default one while a Program is lowered and changed by
// passes, and in the end the one that the Plan names. So which kernels a Plan names changes neither
// instructions nor values, but only workspaces.
#ifndef TESSERA_CORE_PROGRAM_KERNELS_KERNEL_CHOOSER_H_
#define TESSERA_CORE_PROGRAM_KERNELS_KERNEL_CHOOSER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/statusor.h"
#include "core/kernels/interface/backend.h"
#include "core/program/program.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Hashes the fields that make up KernelRequest::Key, without building the text.
struct KernelRequestHash {
  size_t operator()(const KernelRequest& request) const;
};
struct KernelRequestEqual {
  bool operator()(const KernelRequest& a, const KernelRequest& b) const;
};

// Chooses kernels for all Programs of a run and asks the backend only once for each request. Not
// thread-safe.
class KernelChooser {
 public:
  // If `recorded` was made for another backend, processor or number of threads, its choices are not
  // used, and note() says so.
  KernelChooser(const KernelCatalogue* catalogue, const KernelChoices& recorded);

  // Returns the default kernel for the request, without its workspace, or nullptr if the backend
  // has none. The pointer is valid as long as the chooser.
  const PlannedKernel* Find(const KernelRequest& request);
  // Like Find(), but returns NotFound if the backend has no kernel.
  absl::StatusOr<const PlannedKernel*> Choose(const KernelRequest& request);
  // Sets each kernel of a Program to the one that the Plan records for its request, if that can run
  // all instructions that use it. The Program's values must have their final strides. Keeps the
  // default kernel, with a note, if the backend has no kernel of the recorded name for them.
  void ChooseRecorded(Program& program);
  // Returns the bytes of scratch memory that a kernel needs. May be slow: a library may have to
  // build a primitive to know the size.
  int64_t WorkspaceBytes(const PlannedKernel& planned);

  // Returns a line for the user, or "" if there is nothing to report.
  const std::string& note() const { return note_; }

  const KernelCatalogue& catalogue() const { return *catalogue_; }
  const Processor& processor() const { return processor_; }

 private:
  struct Choice {
    PlannedKernel planned;  // its kernel is null if the backend has none
    // By kernel.
    absl::flat_hash_map<const Kernel*, int64_t> workspace_bytes;
  };
  // Returns the choice for a request, which the first call makes.
  Choice& FindOrChoose(const KernelRequest& request);

  const KernelCatalogue* catalogue_;
  Processor processor_;
  absl::flat_hash_map<std::string, std::string> recorded_;
  absl::node_hash_map<KernelRequest, Choice, KernelRequestHash, KernelRequestEqual> choices_;
  std::string note_;
};

// The part of a request that is not determined by the instruction's operands.
struct KernelWork {
  std::string op;
  Attributes attributes = {};
  std::vector<Epilogue> epilogues = {};
};

// Adds kernels to the table of a Program, each request once. Not thread-safe.
class KernelTable {
 public:
  // Both must outlive the table. Nothing else may change program->kernels during its lifetime.
  KernelTable(KernelChooser* chooser, Program* program);

  // Returns the id of the kernel for `work` on values of these types, which is added if it is
  // missing. NotFound if the backend has no kernel for it.
  absl::StatusOr<KernelId> FindOrAdd(KernelWork work, absl::Span<const ProgramValueId> inputs,
                                     absl::Span<const ProgramValueId> outputs);
  // Like FindOrAdd(), but returns kNone if the backend has no kernel.
  KernelId FindOrAddIfSupported(KernelWork work, absl::Span<const ProgramValueId> inputs,
                                absl::Span<const ProgramValueId> outputs);

 private:
  KernelRequest RequestFor(KernelWork work, absl::Span<const ProgramValueId> inputs,
                           absl::Span<const ProgramValueId> outputs) const;
  KernelId FindOrAdd(const PlannedKernel* planned);

  KernelChooser& chooser_;
  Program& program_;
  absl::flat_hash_map<const PlannedKernel*, KernelId> ids_;
};

// Removes the kernels that no instruction uses and sorts the others by their first use.
void DropUnusedKernels(Program& program);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_KERNELS_KERNEL_CHOOSER_H_
