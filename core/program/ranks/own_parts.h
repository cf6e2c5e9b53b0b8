// Finds the values that a rank reads from its own part of a gathered group instead of the gathered
// copy.
#ifndef TESSERA_CORE_PROGRAM_RANKS_OWN_PARTS_H_
#define TESSERA_CORE_PROGRAM_RANKS_OWN_PARTS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "core/layout/flat_group.h"
#include "core/program/program.h"
#include "core/program/ranks/rank_binding.h"

namespace tessera {

// The output of an all-gather contains a copy of the rank's own part, which is the input. If the
// input is a state, values that are completely inside the own part (such as one of several
// parameters that are gathered together) are read from the state, and the all-gather need not copy
// them. Values that span the parts of two ranks need the copy.
//
// This is done only if nothing writes the state while the output is in use. Later writers of the
// state must be on the same stream as everything that reads the output: then they are ordered
// without a wait.
//
// Thread safety: immutable after construction.
class OwnParts {
 public:
  // The Program must be planned. The arguments need not outlive the object.
  OwnParts(const Program& program, const RankBinding& binding, absl::Span<const int> coordinates);

  // Returns the address of the first byte of a value as this rank reads it; `planned` is its
  // planned address.
  ArenaAddress AddressOf(ProgramValueId value, ArenaAddress planned) const {
    const auto found = in_state_.find(value);
    return found == in_state_.end() ? planned : found->second;
  }
  // Returns the elements of an all-gather's output that nothing reads from the output; an empty
  // range if there are none.
  FlatGroup::Range UnreadIn(InstructionId instruction) const {
    const auto found = unread_.find(instruction);
    return found == unread_.end() ? FlatGroup::Range() : found->second;
  }

 private:
  absl::flat_hash_map<ProgramValueId, ArenaAddress> in_state_;
  absl::flat_hash_map<InstructionId, FlatGroup::Range> unread_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_RANKS_OWN_PARTS_H_
