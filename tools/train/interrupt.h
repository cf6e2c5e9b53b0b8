// Ctrl-C (SIGINT) and SIGTERM: the first asks a run to stop, the second ends the process at once.
#ifndef TESSERA_TOOLS_TRAIN_INTERRUPT_H_
#define TESSERA_TOOLS_TRAIN_INTERRUPT_H_

namespace tessera {

// Call once, before other threads are started.
void CatchInterrupts();

// The signal that came, or 0.
int Interrupted();

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_INTERRUPT_H_
