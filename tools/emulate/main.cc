// Runs a job on emulated hosts. The program starts itself again for each rank, as its reaper
// (tools/launch/reaper.h) and as the process that enters the rank's host.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "core/posix/available_cores.h"
#include "core/posix/program_files.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"
#include "core/text/version.h"
#include "tools/emulate/emulated_network.h"
#include "tools/emulate/flags.h"
#include "tools/emulate/host_rank.h"
#include "tools/emulate/link_limits.h"
#include "tools/launch/launcher.h"
#include "tools/launch/reaper.h"

namespace tessera {
namespace {

// About the seconds of a message between two hosts whose links have no latency of their own.
constexpr double kLeastLatency = 15e-6;
// TCP's payload in a frame of an Ethernet, over the frame.
constexpr double kPayload = 1448.0 / 1514.0;

// Returns the cores that the hosts share out, none if there are fewer than hosts. None also if a
// quota grants less core time than there are cores: then hosts run on whichever cores are free.
std::vector<int> CoresToShareOut(int hosts) {
  std::vector<int> cores = AllowedCores();
  const int available = AvailableCores();
  if (available < hosts) {
    absl::FPrintF(stderr,
                  "note: %d hosts share %s: one host's communication takes time of another one's "
                  "computation\n",
                  hosts, Counted(available, "core"));
  }
  if (available < hosts || available < static_cast<int>(cores.size())) return {};
  SortByTopology(&cores);
  return cores;
}

// Sets the variables by which estimates know the network, unless the user has (docs/costs.md).
void DescribeNetwork(const LinkLimits& limits) {
  const auto set = [](const char* variable, const std::string& value) {
    setenv(variable, value.c_str(), /*overwrite=*/0);
  };
  set("TESSERA_NETWORK",
      absl::StrFormat("emulated, %s, %s", FormatCount(limits.bits_per_second, "bit/s"),
                      absl::FormatDuration(limits.latency)));
  set("TESSERA_NETWORK_BYTES_PER_SECOND", absl::StrCat(kPayload * limits.bits_per_second / 8));
  set("TESSERA_NETWORK_LATENCY_SECONDS",
      absl::StrCat(kLeastLatency + absl::ToDoubleSeconds(limits.latency)));
}

absl::StatusOr<int> Emulate(EmulateCommandLine line) {
  const char* const path = std::getenv("PATH");
  ASSIGN_OR_RETURN(const std::string program,
                   comm::FindProgram(line.launch.program, path == nullptr ? "" : path));
  ASSIGN_OR_RETURN(const EmulatedNetwork network, EmulatedNetwork::Make(line.hosts, line.limits));
  DescribeNetwork(line.limits);
  HostRanks ranks = {line.ranks_per_host, {}, CoresToShareOut(line.hosts)};
  for (int host = 0; host < line.hosts; ++host) {
    ranks.namespaces.push_back(network.HostNamespace(host));
  }
  line.launch.arguments = HostRankArguments(ranks, program, line.launch.arguments);
  line.launch.program = ProgramPath();
  return comm::Launch(line.launch);
}

absl::StatusOr<int> Run(const std::vector<std::string>& arguments) {
  RETURN_IF_ERROR(EnterUserFolder("").status());
  unsetenv("BUILD_WORKING_DIRECTORY");  // a program may enter another folder before it starts ours
  ASSIGN_OR_RETURN(const EmulateCommandLine line, ParseEmulateCommandLine(arguments));
  if (line.help || line.version) {
    absl::PrintF("%s", line.help ? EmulateHelpText() : VersionLine());
    return 0;
  }
  return Emulate(line);
}

int Main(const std::vector<std::string>& arguments) {
  const absl::StatusOr<int> code = Run(arguments);
  if (code.ok()) return *code;
  absl::FPrintF(stderr, "error: %s\n", std::string(code.status().message()));
  return 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc > 0 && std::string(argv[0]) == tessera::comm::kReaperName) {
    return tessera::comm::ReaperMain(argc, argv);
  }
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (!arguments.empty() && arguments.front() == tessera::kHostRankArgument) {
    return tessera::RunHostRank(arguments);
  }
  return tessera::Main(arguments);
}
