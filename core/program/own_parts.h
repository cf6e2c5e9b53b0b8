// The values that a rank reads in its own part instead of gathering them.
#ifndef TESSERA_CORE_PROGRAM_OWN_PARTS_H_
#define TESSERA_CORE_PROGRAM_OWN_PARTS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "core/layout/flat_group.h"
#include "core/program/program.h"
#include "core/program/rank_binding.h"

namespace tessera {

// The output of an all-gather contains the rank's own part again, which is also its input. If the
// input is a state, values that lie fully inside the own part (one of several parameters that are
// gathered together) are read in the state instead, and the all-gather does not copy them. A value
// that spans the parts of two ranks needs the copy.
//
// This is done only if nothing writes the state while the output is in use: later writers must run
// on the same stream as all readers of the output, so that they are ordered without a wait.
//
// Thread safety: immutable after construction.
class OwnParts {
 public:
  // The Program must be planned. Needs none of the arguments afterwards.
  OwnParts(const Program& program, const RankBinding& binding, absl::Span<const int> coordinates);

  // The first byte of a value as the rank reads it.
  ArenaAddress AddressOf(int32_t value, ArenaAddress planned) const {
    const auto found = in_state_.find(value);
    return found == in_state_.end() ? planned : found->second;
  }
  // The elements of an all-gather's output that nothing reads there; empty: none.
  FlatGroup::Range UnreadIn(int32_t instruction) const {
    const auto found = unread_.find(instruction);
    return found == unread_.end() ? FlatGroup::Range() : found->second;
  }

 private:
  absl::flat_hash_map<int32_t, ArenaAddress> in_state_;    // by value
  absl::flat_hash_map<int32_t, FlatGroup::Range> unread_;  // by instruction
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_OWN_PARTS_H_
