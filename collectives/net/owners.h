// Descriptions of users, and of the programs that listen on this host, for errors that are caused
// by a program of another job or user.
//
// Thread safety: functions may be called from any thread.
#ifndef TESSERA_COLLECTIVES_NET_OWNERS_H_
#define TESSERA_COLLECTIVES_NET_OWNERS_H_

#include <sys/types.h>

#include <string>

#include "collectives/net/socket_address.h"

namespace tessera::comm {

// "user 1001 (mallory)"; without a name if the system knows none.
std::string FormatUser(uid_t user);

// Returns "process 4711 (nc) of user 1001 (mallory) listens there" if a program of this host
// listens at the address, without the process if the system does not show it to this user. Returns
// "" if the address is another host's, or nobody listens.
std::string FormatListener(const SocketAddress& address);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_NET_OWNERS_H_
