// Which host this process is on, as far as communication goes.
#ifndef TESSERA_COLLECTIVES_HOST_IDENTITY_H_
#define TESSERA_COLLECTIVES_HOST_IDENTITY_H_

#include <string>

namespace tessera::comm {

// The same for two processes that can share memory and reach each other by loopback: containers of
// one machine, and processes in two network namespaces, do not.
std::string HostIdentity();

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_HOST_IDENTITY_H_
