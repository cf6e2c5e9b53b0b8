// Plans the training of a model by several strategies, without the machines that it is for.
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "core/status/status_macros.h"
#include "core/text/version.h"
#include "tools/plan/flags.h"
#include "tools/plan/plan.h"
#include "tools/train/flags/shell_word.h"
#include "tools/train/rank/rank_program.h"

namespace tessera {
namespace {

absl::StatusOr<int> Run(const std::string& name, const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const PlanCommandLine line, ParsePlanCommandLine(arguments));
  const std::string program = ProgramCommand(name, "//tools/plan");
  if (line.help) {
    absl::PrintF("%s", PlanHelp(program));
    return 0;
  }
  if (line.version) {
    absl::PrintF("%s", VersionLine());
    return 0;
  }
  return RunPlanCommand(line, WithArguments(program, arguments));
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::RankMain(
      argc, argv, {.launch = [](const auto&) { return std::nullopt; }, .run = tessera::Run});
}
