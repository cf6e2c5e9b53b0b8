// The tensors that a Plan offloads to the host, and when a Program uses them.
#ifndef TESSERA_CORE_PROGRAM_PASSES_OFFLOAD_USES_H_
#define TESSERA_CORE_PROGRAM_PASSES_OFFLOAD_USES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/plan/choices/stage_passes.h"
#include "core/program/program.h"

namespace tessera {

// One offloaded tensor: a state, several states in one tensor (members of a flat group), or a
// gradient.
struct Offloaded {
  std::vector<int32_t> states;  // in Program::states; empty for a gradient
  // The tensor of the gradient, or of the states' input values; kNone: they have none.
  int32_t tensor = kNone;
  // The tensor of the states' updated values; kNone: they are not updated.
  int32_t updated = kNone;
  // The numbers of the uses of both tensors, in order, and of the first and the last use that
  // writes; -1 if none does.
  std::vector<int32_t> uses;
  int32_t first_write = -1;
  int32_t last_write = -1;

  bool is_state() const { return !states.empty(); }
};

// Returns whether a copy of bytes moves all of a value on every rank.
bool CanBeCopied(const ProgramValue& value);

// Numbers the uses of offloaded tensors: the instructions that touch any of them. Positions are
// indices of instructions. The Program must outlive this object, and its instructions must not
// change. Thread safety: immutable after construction.
class OffloadUses {
 public:
  // Uses [first, last], by index in Offloaded::uses.
  struct Period {
    size_t first, last;
  };

  OffloadUses(const Offload& offload, const Program& program);

  const std::vector<Offloaded>& tensors() const { return tensors_; }
  int32_t PositionOf(int32_t use) const { return position_of_[use]; }
  // Returns the position before which the copy to the device for this use begins.
  int32_t BeginOfCopyFor(int32_t use) const;
  // Returns the position of the k-th use after this one on its stream; if there is none, on any
  // stream; if there is none at all, the number of instructions.
  int32_t Following(int32_t use, int32_t k) const;
  // Divides the uses of a tensor into periods. Between two periods the tensor is dropped from the
  // device, which is done only if the copy for the next period would begin later. Uses are not
  // divided while the tensor is written; those of a state are not divided from its first write on.
  std::vector<Period> PeriodsOf(const Offloaded& tensor) const;

 private:
  bool Selects(const ProgramState& state) const;
  void SelectStates();
  void SelectGradients();
  void NumberUses();
  int32_t count() const { return static_cast<int32_t>(position_of_.size()); }

  const Offload offload_;
  const Program& program_;
  std::vector<Offloaded> tensors_;
  absl::flat_hash_map<int32_t, std::vector<size_t>> touched_with_;  // in tensors_, by tensor
  std::vector<int32_t> position_of_;                                // by use
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_PASSES_OFFLOAD_USES_H_
