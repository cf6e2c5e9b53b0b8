#include "strategies/api/search/block_work.h"

#include <algorithm>
#include <cstddef>

namespace tessera::strategy::search {

std::vector<Work> WorkOf(absl::Span<const LoweredPlans::Section> sections, int blocks,
                         int64_t micro_batches) {
  std::vector<Work> work(blocks + 2);
  bool began = false;         // constants of the backward pass may be made before the forward pass
  bool was_in_block = false;  // in this pass
  bool forward_before = true;
  bool first_forward = true;
  int64_t in_use = -1;  // at the end of the section before, in the first forward pass
  for (const LoweredPlans::Section& section : sections) {
    began = began || section.block() >= 0;
    if (section.phase() == GraphProto::UPDATE ||
        (!began && section.phase() == GraphProto::BACKWARD)) {
      continue;
    }
    const bool forward = section.phase() == GraphProto::FORWARD && !section.recomputed();
    if (forward != forward_before) {
      was_in_block = false;
      first_forward = first_forward && forward;
    }
    forward_before = forward;
    const bool in_block = section.block() >= 0;
    was_in_block = was_in_block || in_block;
    const size_t slot = in_block                  ? section.block() + 1
                        : was_in_block == forward ? work.size() - 1
                                                  : 0;
    PassWork& pass = forward ? work[slot].forward : work[slot].backward;
    pass.computation_seconds += section.computation_seconds() / static_cast<double>(micro_batches);
    pass.span_seconds +=
        (section.end_seconds() - section.begin_seconds()) / static_cast<double>(micro_batches);
    work[slot].peak_bytes = std::max(work[slot].peak_bytes, section.peak_bytes());
    if (!forward) continue;
    if (first_forward && in_use >= 0) work[slot].kept_bytes += section.end_bytes() - in_use;
    in_use = section.end_bytes();
  }
  return work;
}

std::vector<Work> WorkOfUnits(absl::Span<const Work> work, absl::Span<const int> blocks) {
  std::vector<Work> of_units(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i == 0 || blocks[i - 1] != blocks[i]) of_units[i] = work[blocks[i] + 1];
  }
  of_units.push_back(work.back());
  return of_units;
}

void DivideCasts(absl::Span<const int64_t> bytes, const Work& first_without,
                 absl::Span<Work> work) {
  double& first = work[0].forward.computation_seconds;
  const double casts = std::max(0.0, first - first_without.forward.computation_seconds);
  first -= casts;
  double all = 0;
  for (const int64_t of_unit : bytes) all += static_cast<double>(of_unit);
  for (size_t i = 0; i < bytes.size(); ++i) {
    work[i].forward.computation_seconds += casts * static_cast<double>(bytes[i]) / all;
  }
}

}  // namespace tessera::strategy::search
