// The host that this process is on, as far as communication is concerned.
#ifndef TESSERA_COLLECTIVES_HOST_IDENTITY_H_
#define TESSERA_COLLECTIVES_HOST_IDENTITY_H_

#include <string>

namespace tessera::comm {

// A text that is the same for two processes if they can share memory and reach each other by
// loopback. Containers of one machine, and processes in two network namespaces, cannot.
std::string HostIdentity();

// The name of this host, as the system knows it.
std::string HostName();

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_HOST_IDENTITY_H_
