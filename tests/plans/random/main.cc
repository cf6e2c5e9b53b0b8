// Trains small models under random Plans, and prints what became of them.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/text/version.h"
#include "tests/plans/random/check_plan.h"
#include "tests/plans/random/draw_plan.h"
#include "tests/plans/random/judge.h"
#include "tests/plans/random/plan_case.h"
#include "tests/plans/random/summary.h"
#include "tests/plans/random/trained_models.h"
#include "tests/plans/random/try_plans.h"
#include "tools/command_line/command_line.h"

ABSL_FLAG(uint64_t, seed, 1, "of the Plans");
ABSL_FLAG(int64_t, first, 0, "number of the first Plan of this seed");
ABSL_FLAG(int64_t, count, 1000, "how many Plans are tried");
ABSL_FLAG(int, workers, 1, "processes that train at a time");
ABSL_FLAG(double, seconds, 30, "a Plan that takes longer hangs");
ABSL_FLAG(int, shrunk, 1, "how many failures of a kind are shrunk and printed");
ABSL_FLAG(std::string, replay, "", "a file with a line MODEL RANKS PLAN for each Plan to try");
ABSL_FLAG(bool, on_cpu, false, "train on the cpu backend, with kernels that are drawn at random");
ABSL_FLAG(bool, print, false, "print the Plans and do not try them");

namespace tessera {
namespace {

absl::StatusOr<Summary> Replay(const std::vector<TrainedModel>& models, const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<PlanCase> cases, ReadPlanCases(path));
  for (const PlanCase& each : cases) {
    if (FindModel(models, each.model) != nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat(path, ": there is no model '", each.model, "'"));
  }
  const std::vector<Outcome> outcomes = Judge(
      cases, [&](const PlanCase& plan) { return CheckPlan(models, plan); },
      absl::GetFlag(FLAGS_seconds));
  Summary summary;
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string name(NameOf(outcomes[i].kind));
    std::printf("%s: %s\n  %s\n", name.c_str(), outcomes[i].message.c_str(),
                cases[i].ToString().c_str());
    summary.Add(TraitsOf(*FindModel(models, cases[i].model), cases[i]), cases[i], outcomes[i]);
  }
  return summary;
}

void Print(const std::vector<TrainedModel>& models, const TryOptions& options) {
  for (int64_t i = options.first; i < options.first + options.count; ++i) {
    std::printf("%s\n", DrawPlan(models, options.seed, i).ToString().c_str());
  }
}

// Returns whether no Plan failed.
absl::StatusOr<bool> Run(const std::vector<std::string>& arguments) {
  const std::vector<FlagGroup> groups = {{"Flags",
                                          {{"seed", "N"},
                                           {"first", "N"},
                                           {"count", "N"},
                                           {"workers", "N"},
                                           {"seconds", "X"},
                                           {"shrunk", "N"},
                                           {"replay", "FILE"},
                                           {"on_cpu", ""},
                                           {"print", ""}}}};
  ASSIGN_OR_RETURN(const ParsedFlags parsed, ParseFlags(arguments, groups, Rest::kError));
  if (parsed.help) {
    std::printf("Trains small models under random Plans, and compares with one process.\n%s",
                FlagsHelp(groups).c_str());
    return true;
  }
  if (parsed.version) {
    std::printf("%s", VersionLine().c_str());
    return true;
  }
  const std::vector<TrainedModel> models = TrainModelsAlone(absl::GetFlag(FLAGS_on_cpu));
  TryOptions options;
  options.seed = absl::GetFlag(FLAGS_seed);
  options.first = absl::GetFlag(FLAGS_first);
  options.count = absl::GetFlag(FLAGS_count);
  options.workers = absl::GetFlag(FLAGS_workers);
  options.seconds = absl::GetFlag(FLAGS_seconds);
  options.shrunk_per_kind = absl::GetFlag(FLAGS_shrunk);
  if (absl::GetFlag(FLAGS_print)) {
    Print(models, options);
    return true;
  }
  Summary summary;
  if (const std::string replay = absl::GetFlag(FLAGS_replay); !replay.empty()) {
    ASSIGN_OR_RETURN(summary, Replay(models, replay));
  } else {
    summary = TryPlans(models, options);
  }
  std::printf("%s", summary.ToString().c_str());
  return summary.bad() == 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const absl::Status entered = tessera::EnterUserFolder(argv[0]).status();
  const absl::StatusOr<bool> good =
      entered.ok() ? tessera::Run(std::vector<std::string>(argv + 1, argv + argc)) : entered;
  std::fflush(stdout);
  if (good.ok()) return *good ? 0 : 1;
  std::fprintf(stderr, "error: %s\n", std::string(good.status().message()).c_str());
  return 2;
}
