// Deadlines of operations.
//
// Thread safety: pure functions.
#ifndef TESSERA_COLLECTIVES_NET_DEADLINE_H_
#define TESSERA_COLLECTIVES_NET_DEADLINE_H_

#include <chrono>
#include <string>

namespace tessera::comm {

using Deadline = std::chrono::steady_clock::time_point;

// Returns the milliseconds until `deadline`, rounded up, as poll(2) expects them; 0 if it has
// passed.
int MillisecondsUntil(Deadline deadline);

// "60 s", "0.25 s"
std::string FormatTimeout(std::chrono::milliseconds timeout);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_NET_DEADLINE_H_
