// Identifies the host of this process for the purposes of communication.
#ifndef TESSERA_COLLECTIVES_HOST_IDENTITY_H_
#define TESSERA_COLLECTIVES_HOST_IDENTITY_H_

#include <string>

namespace tessera::comm {

// Returns a text that is equal for two processes if they can share memory and reach each other by
// loopback. Containers of one machine, and processes in two network namespaces, cannot.
std::string HostIdentity();

// Returns a text that is equal for two processes if one kernel runs them, in whatever containers.
std::string MachineIdentity();

// Returns the host name that the system reports.
std::string HostName();

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_HOST_IDENTITY_H_
