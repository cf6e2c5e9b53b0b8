// The strategies that tools compare by default, and the memory limit of the one that searches.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_STRATEGY_ENTRY_DEFAULT_STRATEGIES_H_
#define TESSERA_TOOLS_STRATEGY_ENTRY_DEFAULT_STRATEGIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tools/strategy_entry/strategy_entry.h"

namespace tessera {

// Returns the entries without --strategies: ddp, fsdp, osdp with a limit between their peaks, and
// tensor. Without a limit osdp would have nothing to weigh memory against.
std::vector<StrategyEntry> DefaultStrategies();

// The planned memory of a rank under an entry.
struct PlannedPeak {
  std::string label;
  int64_t bytes = 0;
};

struct DerivedLimit {
  int64_t bytes = 0;  // 0: none
  std::string note;   // for the user: how it was derived, or why there is none
};

// Returns the limit of an entry with `limit_between`: half way between the peaks of the first two
// of `planned`, which are the entries that could be planned so far.
DerivedLimit LimitBetween(absl::Span<const PlannedPeak> planned);

}  // namespace tessera

#endif  // TESSERA_TOOLS_STRATEGY_ENTRY_DEFAULT_STRATEGIES_H_
