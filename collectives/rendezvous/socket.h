// TCP sockets. All are non-blocking, and closed on exec.
//
// Thread safety: functions may be called from any thread.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_SOCKET_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_SOCKET_H_

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/posix/file_descriptor.h"

namespace tessera::comm {

using Deadline = std::chrono::steady_clock::time_point;

// For poll(2): milliseconds until `deadline`, rounded up; 0 if it has passed.
int MillisecondsUntil(Deadline deadline);

// "60 s", "0.25 s"
std::string FormatTimeout(std::chrono::milliseconds timeout);

// "node1:29500", "[fe80::1]:29500"
std::string FormatAddress(absl::string_view host, int port);

enum class Reach { kLoopback, kAnyHost };

// A listening socket on 127.0.0.1, or on all interfaces (IPv6 and IPv4). Port 0: the system chooses
// one. AlreadyExists if the port is in use; the message names it.
absl::StatusOr<FileDescriptor> ListenOn(Reach reach, int port);

// Takes over a listening socket that another process has bound. NotFound if `fd` is not an open
// descriptor, InvalidArgument if it is no listening TCP socket.
absl::StatusOr<FileDescriptor> AdoptListener(int fd);

// Of a bound socket.
absl::StatusOr<int> PortOf(const FileDescriptor& socket);

// The next connection, or a closed descriptor if there is none now. An error if the system has no
// descriptors or memory for one.
absl::StatusOr<FileDescriptor> AcceptFrom(const FileDescriptor& listener);

// Connects to the first address of `host` that answers. NotFound if the host's name has no address,
// Unavailable if none accepts a connection before the deadline.
absl::StatusOr<FileDescriptor> ConnectTo(const std::string& host, int port, Deadline deadline);

// Addresses of the interfaces that are up, loopback and link-local ones left out, as text.
std::vector<std::string> OwnAddresses();

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_SOCKET_H_
