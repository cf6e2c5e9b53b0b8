// Compares parallel strategies on one model.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "core/status/status_macros.h"
#include "core/text/version.h"
#include "tools/compare/compare.h"
#include "tools/compare/flags.h"
#include "tools/compare/plans.h"
#include "tools/train/flags/shell_word.h"
#include "tools/train/rank/rank_program.h"

namespace tessera {
namespace {

std::optional<comm::LaunchCommandLine> LauncherFor(const std::vector<std::string>& arguments) {
  absl::StatusOr<CompareCommandLine> line = ParseCompareCommandLine(arguments);
  if (!line.ok() || line->help || line->version || line->launch.nproc == 0 ||
      line->train.plan_only || RanksAreThreads(line->train)) {
    return std::nullopt;
  }
  return std::move(line->launch);
}

absl::StatusOr<int> Run(const std::string& name, const std::vector<std::string>& arguments) {
  const absl::StatusOr<CompareCommandLine> line = ParseCompareCommandLine(arguments);
  if (!line.ok()) {
    LetFirstRankReport();
    return line.status();
  }
  if (line->help) {
    absl::PrintF("%s", CompareHelp(ProgramCommand(name, "//tools/compare")));
    return 0;
  }
  if (line->version) {
    absl::PrintF("%s", VersionLine());
    return 0;
  }
  if (line->train.plan_only) return ComparePlans(*line);
  const int threads = RanksAreThreads(line->train) ? line->launch.nproc : 0;
  return RunAsRank(line->train.world, threads, [&](Job& job) { return CompareOnRank(*line, job); });
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::RankMain(argc, argv, {.launch = tessera::LauncherFor, .run = tessera::Run});
}
