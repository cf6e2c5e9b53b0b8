// The timed rounds of a comparison.
#ifndef TESSERA_TOOLS_COMPARE_ROUNDS_H_
#define TESSERA_TOOLS_COMPARE_ROUNDS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/train/ranks/ranks.h"
#include "tools/compare/preparation.h"
#include "tools/train/rank/stop_request.h"

namespace tessera {

struct RoundOptions {
  int64_t steps = 0;       // timed steps of each strategy
  int64_t rounds = 0;      // at most `steps`
  bool alternates = true;  // all strategies in each round; else one after the other
};

// Collective. Runs the rounds of all strategies that are still compared. If `stop` has a signal, it
// ends early, and strategies that alternate keep the rounds that all of them have finished.
absl::Status RunRounds(const RoundOptions& options, const Strategies& strategies, StopRequest& stop,
                       Ranks& ranks);

// Excludes the strategies whose losses or norms in these rounds differ from those of the others
// with the same batch.
void CompareRounds(const Strategies& strategies);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_ROUNDS_H_
