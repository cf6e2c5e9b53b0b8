#include "tools/train/launch_ranks.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "collectives/rendezvous/environment.h"
#include "core/status/status_macros.h"
#include "tools/launch/launcher.h"
#include "tools/launch/reaper.h"
#include "tools/train/flags.h"

namespace tessera {
namespace {

absl::StatusOr<int> StartRanks(const std::string& program, const CommandLine& line) {
  ASSIGN_OR_RETURN(const comm::RankEnvironment environment, comm::ReadRankEnvironment(""));
  if (environment.launcher != "none") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--nproc=", line.launch.nproc, " starts ranks, and this process is rank ", environment.rank,
        " of a job that ", environment.launcher, " has started: leave out --nproc"));
  }
  comm::LaunchCommandLine launch = line.launch;
  launch.program = program;
  return comm::Launch(launch);
}

}  // namespace

std::optional<int> LaunchRanks(int argc, char** argv, const ModelDefinition& definition) {
  if (std::string(argv[0]) == comm::kReaperName) return comm::ReaperMain(argc, argv);
  const absl::StatusOr<CommandLine> line =
      ParseCommandLine(std::vector<std::string>(argv + 1, argv + argc), definition);
  if (!line.ok() || line->help || line->print_config || line->plan_only ||
      line->launch.nproc == 0 || RanksAreThreads(*line)) {
    return std::nullopt;
  }
  const absl::StatusOr<int> code = StartRanks(argv[0], *line);
  if (code.ok()) return *code;
  absl::FPrintF(stderr, "error: %s\n", std::string(code.status().message()));
  return 1;
}

}  // namespace tessera
