// The limit for `comm_bench --overlap` between two hosts: how much of plain TCP is hidden behind
// computation. Each of two ranks sends as many bytes as in an all-reduce and receives as many, with
// blocking calls on two threads, and reduces nothing.
//
//   plain_sockets BYTES...     on both ranks, in the environment of a launcher
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "collectives/connected_world.h"
#include "collectives/net/socket.h"
#include "core/posix/file_descriptor.h"
#include "core/status/status_macros.h"
#include "tools/comm_bench/overlap.h"

namespace tessera::comm {
namespace {

constexpr int kWarmups = 1, kIterations = 9;  // as overlap_bench.sh

// Returns a connection between the two ranks, whose calls block.
absl::StatusOr<FileDescriptor> ConnectPair(ConnectedWorld& world) {
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  Communicator& group = world.cpu_communicator();
  FileDescriptor listener, socket;
  int64_t port = 0;
  if (world.rank() == 0) {
    ASSIGN_OR_RETURN(listener, ListenOn(Reach::kAnyHost, 0));
    ASSIGN_OR_RETURN(port, PortOf(listener));
  }
  RETURN_IF_ERROR(group.Wait(group.Broadcast(&port, &port, 1, DType::kI64, /*root=*/0)));
  if (world.rank() == 0) {
    RETURN_IF_ERROR(WaitForEvents(listener.get(), POLLIN, deadline));
    ASSIGN_OR_RETURN(socket, AcceptFrom(listener));
  } else {
    ASSIGN_OR_RETURN(socket,
                     ConnectTo(world.environment().master_host, static_cast<int>(port), deadline));
  }
  const int flags = fcntl(socket.get(), F_GETFL);
  if (flags < 0 || fcntl(socket.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a socket block");
  }
  return socket;
}

absl::Status SendAll(int socket, const char* data, int64_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = send(socket, data, bytes, MSG_NOSIGNAL);
    if (sent < 0) return absl::ErrnoToStatus(errno, "cannot send");
    data += sent;
    bytes -= sent;
  }
  return absl::OkStatus();
}

absl::Status ReceiveAll(int socket, char* data, int64_t bytes) {
  while (bytes > 0) {
    const ssize_t received = recv(socket, data, bytes, MSG_WAITALL);
    if (received < 0) return absl::ErrnoToStatus(errno, "cannot receive");
    if (received == 0) return absl::UnavailableError("the other rank closed the connection");
    data += received;
    bytes -= received;
  }
  return absl::OkStatus();
}

absl::Status Time(ConnectedWorld& world, int socket, int64_t bytes) {
  std::vector<char> sent(bytes), received(bytes);
  std::thread sender, receiver;
  absl::Status send_status, receive_status;
  const OverlappedOperation transfer = {
      .start =
          [&] {
            sender = std::thread([&] { send_status = SendAll(socket, sent.data(), bytes); });
            receiver =
                std::thread([&] { receive_status = ReceiveAll(socket, received.data(), bytes); });
          },
      .wait =
          [&] {
            sender.join();
            receiver.join();
            return send_status.ok() ? receive_status : send_status;
          }};
  ASSIGN_OR_RETURN(OverlapRow row, TimeOverlap(world, transfer, kWarmups, kIterations));
  row.name = "plain sockets";
  row.bytes = bytes;
  if (world.rank() == 0) std::printf("%s", OverlapLine(row).c_str());
  return absl::OkStatus();
}

absl::Status Main(ConnectedWorld& world, const std::vector<int64_t>& sizes) {
  if (world.size() != 2) return absl::InvalidArgumentError("plain_sockets needs two ranks");
  ASSIGN_OR_RETURN(const FileDescriptor socket, ConnectPair(world));
  if (world.rank() == 0) std::printf("%s", OverlapHead().c_str());
  for (const int64_t bytes : sizes) RETURN_IF_ERROR(Time(world, socket.get(), bytes));
  return absl::OkStatus();
}

}  // namespace
}  // namespace tessera::comm

int main(int argc, char** argv) {
  std::vector<int64_t> sizes;
  for (int i = 1; i < argc; ++i) {
    int64_t bytes = 0;
    if (!absl::SimpleAtoi(argv[i], &bytes) || bytes < 1) {
      std::fprintf(stderr, "error: '%s' is not a number of bytes\n", argv[i]);
      return 2;
    }
    sizes.push_back(bytes);
  }
  auto world = tessera::comm::ConnectedWorld::Connect({});
  absl::Status status = world.status();
  if (status.ok()) {
    status = tessera::comm::Main(**world, sizes);
    status.Update((*world)->Leave(status));
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 1;
}
