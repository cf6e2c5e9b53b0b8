// TCP sockets, and deadlines for them. All sockets are non-blocking, and closed on exec.
//
// Thread safety: functions may be called from any thread.
#ifndef TESSERA_COLLECTIVES_NET_SOCKET_H_
#define TESSERA_COLLECTIVES_NET_SOCKET_H_

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/net/socket_address.h"
#include "core/posix/file_descriptor.h"

namespace tessera::comm {

using Deadline = std::chrono::steady_clock::time_point;

// Returns the milliseconds until `deadline`, rounded up, as poll(2) expects them; 0 if it has
// passed.
int MillisecondsUntil(Deadline deadline);

// "60 s", "0.25 s"
std::string FormatTimeout(std::chrono::milliseconds timeout);

enum class Reach { kLoopback, kAnyHost };

// Returns a listening socket on 127.0.0.1, or on all interfaces (IPv6 and IPv4). Port 0: the system
// chooses one. AlreadyExists if the port is in use; the message names it.
absl::StatusOr<FileDescriptor> ListenOn(Reach reach, int port);
// Returns a listening socket at one address.
absl::StatusOr<FileDescriptor> ListenAt(const SocketAddress& address);

// Takes over a listening socket that another process has bound. NotFound if `fd` is not an open
// descriptor, InvalidArgument if it is not a listening TCP socket.
absl::StatusOr<FileDescriptor> AdoptListener(int fd);

// Return the address and the port that a socket is bound to.
absl::StatusOr<SocketAddress> AddressOf(const FileDescriptor& socket);
absl::StatusOr<int> PortOf(const FileDescriptor& socket);
// Returns the address of the other end of a connection.
absl::StatusOr<SocketAddress> PeerAddressOf(const FileDescriptor& socket);

// Returns the next connection, or a closed descriptor if none is waiting. Returns an error if the
// system has no descriptor or memory for one.
absl::StatusOr<FileDescriptor> AcceptFrom(const FileDescriptor& listener);

// Begins a connection from `local`, or from any address if it is null. Once the socket is writable,
// ConnectionStatus returns OK if it is connected, and otherwise Unavailable with the reason.
absl::StatusOr<FileDescriptor> StartConnecting(const SocketAddress& remote,
                                               const SocketAddress* local);
absl::Status ConnectionStatus(const FileDescriptor& socket);

// Connects to the first address of `host` that answers. NotFound if the host's name has no address,
// Unavailable if none accepts a connection before the deadline.
absl::StatusOr<FileDescriptor> ConnectTo(const std::string& host, int port, Deadline deadline);

// Makes the system end the connection if for 20 s the peer's system acknowledges nothing that was
// sent, or accepts nothing because the peer does not read.
void LimitUnacknowledged(const FileDescriptor& socket);

// Waits until poll(2) reports one of `events`; DeadlineExceeded after `deadline`.
absl::Status WaitForEvents(int fd, short events, Deadline deadline);  // NOLINT(google-runtime-int)

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_NET_SOCKET_H_
