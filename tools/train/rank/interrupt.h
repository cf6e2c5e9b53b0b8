// The signals that ask a run to stop (core/posix/stop_requests.h). The second request ends the
// process at once.
#ifndef TESSERA_TOOLS_TRAIN_RANK_INTERRUPT_H_
#define TESSERA_TOOLS_TRAIN_RANK_INTERRUPT_H_

#include <memory>

#include "core/posix/signals.h"

namespace tessera {

// Starts the thread that receives all signals of this process, as long as the result exists. Call
// it before any other thread exists: threads inherit the mask of blocked signals. Until
// StopOnInterrupts is called, the signals that ask a run to stop have their default action: they
// end the process.
std::unique_ptr<SignalThread> StartSignalThread();

// For messages about the first request.
inline constexpr char kStopsAtOnce[] = "another signal, a second later, stops at once";

// From now on the first of these signals asks the run to stop, and CaughtSignal returns it; the
// second ends the process. A message on stderr reports the first, unless this process is one of
// several ranks (`one_rank` is false), which have to agree first.
void StopOnInterrupts(bool one_rank = true);

// StopRequest sets this when the ranks of a run have first agreed whether to stop: from then on all
// of them stop together. Before, a signal may end some of them at once, so an error of a lost peer
// may be due to a signal that this rank has not received yet: the end of a job (rank_program.cc)
// reads it to tell the two apart.
void SetStopIsCollective();
bool IsStopCollective();

// Returns the signal that asked the run to stop, or 0 if none has since StopOnInterrupts. May be
// called from any thread.
int CaughtSignal();

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_RANK_INTERRUPT_H_
