// The tensors that a Plan offloads to the host, and when a Program uses them.
#ifndef TESSERA_CORE_PROGRAM_PASSES_OFFLOAD_USES_H_
#define TESSERA_CORE_PROGRAM_PASSES_OFFLOAD_USES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ids/id.h"
#include "core/ids/table.h"
#include "core/plan/choices/stage_passes.h"
#include "core/program/program.h"

namespace tessera {

// A use: an instruction that touches offloaded tensors.
using UseId = Id<struct OffloadUse>;

// One offloaded tensor: a state, several states in one tensor (members of a flat group), or a
// gradient.
struct Offloaded {
  std::vector<ProgramStateId> states;  // empty for a gradient
  // The tensor of the gradient, or of the states' input values; kNone: they have none.
  ProgramValueId tensor;
  // The tensor of the states' updated values; kNone: they are not updated.
  ProgramValueId updated;
  // The uses of both tensors, in order, and the first and the last use that writes; kNone if none
  // does.
  std::vector<UseId> uses;
  UseId first_write;
  UseId last_write;

  bool is_state() const { return !states.empty(); }
};

// Returns whether a copy of bytes moves all of a value on every rank.
bool CanBeCopied(const ProgramValue& value);

// The uses of offloaded tensors, in order. A position is an instruction, or the end of the Program.
// The Program must outlive this object, and its instructions must not change. Thread safety:
// immutable after construction.
class OffloadUses {
 public:
  // Uses [first, last], by index in Offloaded::uses.
  struct Period {
    size_t first, last;
  };

  OffloadUses(const Offload& offload, const Program& program);

  const std::vector<Offloaded>& tensors() const { return tensors_; }
  InstructionId PositionOf(UseId use) const { return position_of_[use]; }
  // Returns the position before which the copy to the device for this use begins.
  InstructionId BeginOfCopyFor(UseId use) const;
  // Returns the position of the k-th use after this one on its stream; if there is none, on any
  // stream; if there is none at all, the number of instructions.
  InstructionId Following(UseId use, int k) const;
  // Divides the uses of a tensor into periods. Between two periods the tensor is dropped from the
  // device, which is done only if the copy for the next period would begin later. Uses are not
  // divided while the tensor is written; those of a state are not divided from its first write on.
  std::vector<Period> PeriodsOf(const Offloaded& tensor) const;

 private:
  bool Selects(const ProgramState& state) const;
  void SelectStates();
  void SelectGradients();
  void NumberUses();

  const Offload offload_;
  const Program& program_;
  std::vector<Offloaded> tensors_;
  absl::flat_hash_map<ProgramValueId, std::vector<size_t>> touched_with_;  // in tensors_, by tensor
  Table<UseId, InstructionId> position_of_;                                // by use
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_PASSES_OFFLOAD_USES_H_
