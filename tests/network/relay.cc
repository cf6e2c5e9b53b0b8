// A host on the way between two others, which changes what passes: in each occurrence of a text,
// one bit. To the host in the namespace NEAR it looks like the host with ADDRESS, which it reaches
// from the namespace FAR. Prints "ready", and runs until its standard input ends; then it prints
// the number of changes.
//
//   relay NEAR FAR ADDRESS FIRST_PORT-LAST_PORT,... TEXT
#include "collectives/testing/relay.h"

#include <fcntl.h>
#include <sched.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "collectives/net/socket.h"
#include "core/posix/file_descriptor.h"
#include "core/status/status_macros.h"

namespace tessera::comm {
namespace {

// Moves this thread to a network namespace.
absl::Status Enter(const std::string& name) {
  const FileDescriptor space(open(absl::StrCat("/run/netns/", name).c_str(), O_RDONLY | O_CLOEXEC));
  if (space.is_open() && setns(space.get(), CLONE_NEWNET) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot enter the namespace ", name));
}

absl::StatusOr<std::vector<int>> ParsePorts(const std::string& text) {
  std::vector<int> ports;
  for (const std::string& range : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const std::pair<std::string, std::string> ends = absl::StrSplit(range, absl::MaxSplits('-', 1));
    int first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.first, &first) ||
        !absl::SimpleAtoi(ends.second.empty() ? ends.first : ends.second, &last)) {
      return absl::InvalidArgumentError(absl::StrCat("'", range, "' is no range of ports"));
    }
    for (int port = first; port <= last; ++port) ports.push_back(port);
  }
  return ports;
}

absl::Status Run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 5) {
    return absl::InvalidArgumentError(
        "usage: relay NEAR FAR ADDRESS FIRST_PORT-LAST_PORT,... TEXT");
  }
  const std::string near = arguments[0], far = arguments[1], address = arguments[2];
  ASSIGN_OR_RETURN(const std::vector<int> numbers, ParsePorts(arguments[3]));
  RETURN_IF_ERROR(Enter(near));
  std::vector<RelayPort> ports;
  for (const int number : numbers) {
    ASSIGN_OR_RETURN(const SocketAddress local, SocketAddress::Parse(address, number));
    ASSIGN_OR_RETURN(FileDescriptor listener, ListenAt(local));
    ports.push_back({std::move(listener), [=]() -> absl::StatusOr<FileDescriptor> {
                       RETURN_IF_ERROR(Enter(far));
                       return ConnectTo(address, number,
                                        std::chrono::steady_clock::now() + std::chrono::seconds(5));
                     }});
  }
  const Relay relay(std::move(ports), arguments[4]);
  std::printf("ready\n");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  std::printf("changes %lld\n", static_cast<long long>(relay.changes()));
  return absl::OkStatus();
}

}  // namespace
}  // namespace tessera::comm

int main(int argc, char** argv) {
  const absl::Status status = tessera::comm::Run(std::vector<std::string>(argv + 1, argv + argc));
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 1;
}
