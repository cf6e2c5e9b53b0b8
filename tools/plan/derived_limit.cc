#include "tools/plan/derived_limit.h"

#include "absl/strings/str_cat.h"

namespace tessera {

void DerivedLimits::Add(const Cell& cell) {
  Planned& planned = by_ranks_[cell.request.ranks];
  planned.peaks.push_back({cell.request.label, cell.peak_bytes()});
  if (planned.peaks.size() == 1) planned.bound = cell.configured->memory_bound;
}

CellRequest DerivedLimits::WithLimit(CellRequest request, std::vector<std::string>* notes) const {
  if (!request.limit_between || request.ranks == kFewestRanks) return request;
  const auto found = by_ranks_.find(request.ranks);
  const Planned planned = found == by_ranks_.end() ? Planned() : found->second;
  const DerivedLimit limit = LimitBetween(planned.peaks);
  const MemoryBound& bound = planned.bound;
  if (bound.bytes > 0 && (!bound.of_device || bound.bytes <= limit.bytes)) return request;
  notes->push_back(limit.note);
  return limit.bytes == 0 ? request : WithField(request, "memory_limit", absl::StrCat(limit.bytes));
}

}  // namespace tessera
