#include "collectives/host_identity.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace tessera::comm {

std::string MachineIdentity() {
  std::string identity;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), identity);
  return identity;
}

std::string HostIdentity() {
  std::string identity = MachineIdentity();
  for (const char* space : {"net", "pid"}) {
    char name[64] = "";
    if (readlink(absl::StrCat("/proc/self/ns/", space).c_str(), name, sizeof(name) - 1) < 0) {
      name[0] = '\0';
    }
    absl::StrAppend(&identity, " ", name);
  }
  return identity;
}

std::string HostName() {
  std::array<char, HOST_NAME_MAX + 1> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

}  // namespace tessera::comm
