// The work of each block of a model, in a step that was lowered.
#ifndef TESSERA_STRATEGIES_API_SEARCH_BLOCK_WORK_H_
#define TESSERA_STRATEGIES_API_SEARCH_BLOCK_WORK_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "strategies/api/kit.h"

namespace tessera::strategy::search {

// A pass over a block or over what lies outside of blocks: seconds of one micro-batch.
struct PassWork {
  double computation_seconds = 0;
  double span_seconds = 0;  // with the waits between its operators
};

struct Work {
  PassWork forward, backward;
  int64_t kept_bytes = 0;  // from the forward pass for the backward pass
  int64_t peak_bytes = 0;  // of the rank, while a pass over it runs
};

// Returns the work of each slot in the order of the forward pass: slot 0 is what comes before the
// blocks, slot i + 1 is block i, and the last one is what comes behind them. The sections are those
// of LoweredPlans, of a Graph with so many blocks. Thread safety: a pure function.
std::vector<Work> WorkOf(absl::Span<const LoweredPlans::Section> sections, int blocks,
                         int64_t micro_batches);

// Returns the work of units of parameters, by the block of each: -1 before the blocks. Only the
// first of several units of a block computes, as where parameters have two dtypes. The last one is
// the work behind the blocks. `work` is that of slots. Thread safety: a pure function.
std::vector<Work> WorkOfUnits(absl::Span<const Work> work, absl::Span<const int> blocks);

// Parameters that are not split are cast before the first block is computed, all of them. Divides
// the time by which the first unit's forward pass exceeds `first_without`, without casts, among the
// units in proportion to their bytes. `work` is that of the units.
void DivideCasts(absl::Span<const int64_t> bytes, const Work& first_without, absl::Span<Work> work);

}  // namespace tessera::strategy::search

#endif  // TESSERA_STRATEGIES_API_SEARCH_BLOCK_WORK_H_
