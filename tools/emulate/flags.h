// The command line of emulate.
#ifndef TESSERA_TOOLS_EMULATE_FLAGS_H_
#define TESSERA_TOOLS_EMULATE_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/emulate/link_limits.h"
#include "tools/launch/flags.h"

namespace tessera {

struct EmulateCommandLine {
  bool help = false;
  bool version = false;
  int hosts = 0;
  int ranks_per_host = 0;
  LinkLimits limits;
  comm::LaunchCommandLine launch;  // `program` and `arguments` as the user wrote them
};

// Flags stand before the program; everything after it is passed to the program. InvalidArgument
// names the fault and the remedy.
absl::StatusOr<EmulateCommandLine> ParseEmulateCommandLine(
    const std::vector<std::string>& arguments);

// The text that --help prints.
std::string EmulateHelpText();

}  // namespace tessera

#endif  // TESSERA_TOOLS_EMULATE_FLAGS_H_
