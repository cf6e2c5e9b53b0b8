// Which kernels can run the instructions of a Program.
#ifndef TESSERA_CORE_PROGRAM_KERNELS_KERNEL_USES_H_
#define TESSERA_CORE_PROGRAM_KERNELS_KERNEL_USES_H_

#include <vector>

#include "core/ids/table.h"
#include "core/kernels/interface/backend.h"
#include "core/program/program.h"

namespace tessera {

// Returns whether each rank's part of a value is row-major, so that a kernel without strides can
// use it.
bool IsRowMajorOnAllRanks(const Program& program, ProgramValueId id);

// The instructions that use each kernel of a Program, and the operands that kernels must take with
// strides. The Program must outlive it, and its instructions and strides must not change. Thread
// safety: immutable after construction.
class KernelUses {
 public:
  explicit KernelUses(const Program& program);

  // Returns the instructions that use a kernel, in order.
  const std::vector<InstructionId>& InstructionsOf(KernelId kernel) const {
    return uses_[kernel].instructions;
  }
  // Returns the kernels that can run all of these instructions, the default one first. It has at
  // least one, unless the Program was made for another backend.
  std::vector<const Kernel*> CandidatesFor(KernelId kernel, const KernelCatalogue& catalogue) const;

 private:
  struct Uses {
    std::vector<InstructionId> instructions;
    // Operands that are not row-major in one of the instructions.
    std::vector<int> strided_inputs, strided_outputs;
  };

  const Program& program_;
  Table<KernelId, Uses> uses_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_KERNELS_KERNEL_USES_H_
