// The signals that ask a run to stop (core/posix/stop_requests.h). The second request ends the
// process at once.
#ifndef TESSERA_TOOLS_TRAIN_RANK_INTERRUPT_H_
#define TESSERA_TOOLS_TRAIN_RANK_INTERRUPT_H_

#include <memory>

#include "core/posix/signals.h"

namespace tessera {

// Call on the first line of main. While the result exists, its thread receives all signals. Until
// StopOnInterrupts is called, these signals end the process, as they do by default.
std::unique_ptr<SignalThread> TakeInterrupts();

// For messages about the first request.
inline constexpr char kStopsAtOnce[] = "another signal, a second later, stops at once";

// From now on the first of them asks the run to stop. A message on stderr says so, unless this
// process is one of several ranks, which have to agree first.
void StopOnInterrupts(bool one_rank = true);

// Call when the ranks of a run have agreed whether to stop: from then on all of them stop together.
// Before, a signal may still end some of them at once.
void RanksStopTogether();
bool DoRanksStopTogether();

// Returns the signal that asked the run to stop, or 0. May be called from any thread.
int Interrupted();

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_RANK_INTERRUPT_H_
