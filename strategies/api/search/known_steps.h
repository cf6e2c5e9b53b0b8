// Lowered steps, and what they say about the alternatives of a problem.
#ifndef TESSERA_STRATEGIES_API_SEARCH_KNOWN_STEPS_H_
#define TESSERA_STRATEGIES_API_SEARCH_KNOWN_STEPS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "strategies/api/search/block_work.h"
#include "strategies/api/search/search.h"

namespace tessera::strategy::search {

// A lowered step.
struct KnownStep {
  std::vector<int> choices;  // [units of the problem]
  std::vector<Work> work;    // [units of the problem]; a unit may have none
  int64_t peak_bytes = 0;
};

// Sets the surge of each alternative that steps have to what they need beyond the other bytes of
// the problem, so that its peaks are theirs; of the others, to 0. The last unit is the work behind
// the blocks: while its backward pass runs, the unit before it is gathered, and what that needs
// beyond the least of all steps is that unit's. The first step has choice 0 there.
// Thread safety: a pure function.
void SetSurges(absl::Span<const KnownStep> steps, Problem& problem);

// Returns what an alternative becomes by the change from one alternative to another, about.
Alternative ChangedAs(Alternative changed, const Alternative& from, const Alternative& to);

// Returns a problem below which no Plan goes: units compute as in the fastest step and wait for
// nothing, and only the last one has a surge. Thread safety: a pure function.
Problem LeastOf(Problem problem, absl::Span<const KnownStep> steps);

}  // namespace tessera::strategy::search

#endif  // TESSERA_STRATEGIES_API_SEARCH_KNOWN_STEPS_H_
