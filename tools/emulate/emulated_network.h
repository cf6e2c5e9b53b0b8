// Hosts as network namespaces, whose links a switch joins.
#ifndef TESSERA_TOOLS_EMULATE_EMULATED_NETWORK_H_
#define TESSERA_TOOLS_EMULATE_EMULATED_NETWORK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/posix/file_descriptor.h"
#include "tools/emulate/link_limits.h"

namespace tessera {

// The namespaces of the hosts and of the switch. They have no names: the kernel removes them, and
// all that is in them, when nothing refers to them any more, neither this object nor a process that
// has entered one. So nothing is left when all these processes are gone, even if they were killed.
//
// Thread safety: the process has one thread.
class EmulatedNetwork {
 public:
  // The message of an error because of what this machine lacks or forbids starts with "emulated
  // hosts need".
  static absl::StatusOr<EmulatedNetwork> Make(int hosts, const LinkLimits& limits);

  // Returns the path by which a process can open a host's namespace, as long as this process holds
  // the network.
  std::string HostNamespace(int host) const;

 private:
  std::vector<FileDescriptor> namespaces_;  // those of the hosts, and last the switch's
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_EMULATE_EMULATED_NETWORK_H_
