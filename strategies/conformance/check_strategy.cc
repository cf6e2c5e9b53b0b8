#include "strategies/conformance/check_strategy.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/kernels/cpu/backend.h"
#include "core/kernels/reference/backend.h"
#include "core/plan/rewrite/precision_choice.h"
#include "core/plan/run_settings.h"
#include "core/status/status_macros.h"
#include "strategies/conformance/check_checkpoints.h"
#include "strategies/conformance/check_estimate.h"
#include "strategies/conformance/compare_training.h"
#include "strategies/conformance/drawn_kernels.h"
#include "strategies/conformance/known_models.h"
#include "strategies/conformance/plain_plans.h"
#include "strategies/conformance/rank_training.h"
#include "strategies/conformance/small_models.h"
#include "strategies/conformance/strategy_planner.h"
#include "strategies/host/option_values.h"

namespace tessera {
namespace {

// How often at most a request is planned again in later seconds.
constexpr int kPlansInLaterSeconds = 6;
// time() may be late by this much: it shows the kernel's last tick.
constexpr absl::Duration kClockTick = absl::Milliseconds(10);

constexpr double kReferenceTolerance = 1e-10;

std::string OperationName(size_t operation) {
  return std::string(CollectiveOperationName(static_cast<CollectiveOperation>(operation)));
}

// Returns whether an operator of the run is not continuous.
bool HasJumps(const TrainingRun& run) {
  return absl::c_any_of(run.graphs, [](const Graph& graph) {
    return absl::c_any_of(graph.ops(), [](const Op& op) { return !op.kind->IsContinuous(); });
  });
}

// Returns the second since 1970 that every clock has shown since `begin`, or nothing if it changed.
std::optional<int64_t> SecondSince(absl::Time begin) {
  const int64_t second = absl::ToUnixSeconds(begin - kClockTick);
  return absl::ToUnixSeconds(absl::Now()) == second ? std::make_optional(second) : std::nullopt;
}

// Checks a strategy with one set of options on one model.
class Checker {
 public:
  Checker(const Plugin& plugin, const OptionValues& options, const StrategyChecks& checks,
          const std::string& model, KnownModel& known)
      : plugin_(plugin),
        checks_(checks),
        model_(model),
        known_(known),
        run_(known.run()),
        planner_(&plugin, options, &run_, known.contexts()) {
    run_.steps = checks.steps;
    run_.plugin_passes = [this](const KernelCatalogue& catalogue) {
      return planner_.MakePasses(catalogue);
    };
  }

  // Runs all checks. Sets *suits if the options suit the model on any number of ranks.
  // `a_second_later`: the checks last until the clock shows another second, in which the strategy
  // must make the same Plan.
  absl::Status Run(bool a_second_later, bool* suits) {
    ASSIGN_OR_RETURN(const KnownModel::TrainedAlone* const alone, known_.TrainAlone(run_.steps));
    for (const int ranks : checks_.ranks) RETURN_IF_ERROR(CheckRanks(ranks, *alone, suits));
    return a_second_later ? CheckPlanInLaterSeconds() : absl::OkStatus();
  }

  const absl::Status& refusal() const { return refusal_; }

 private:
  // Returns an error of the strategy on so many ranks.
  absl::Status Error(int ranks, absl::string_view fault) const {
    return absl::InternalError(
        absl::StrCat(plugin_.name(), " [", absl::StrJoin(checks_.options, ","), "], ", model_, ", ",
                     ranks, ranks == 1 ? " rank: " : " ranks: ", fault));
  }
  // Returns the error of a check.
  absl::Status CheckError(int ranks, absl::string_view check, const absl::Status& status) const {
    return Error(ranks, absl::StrCat(check, ": ", status.message()));
  }

  void ReportProgress(int ranks, absl::string_view what) const {
    if (checks_.progress == nullptr) return;
    checks_.progress(absl::StrCat(model_, ", ", ranks, ranks == 1 ? " rank: " : " ranks: ", what));
  }

  // Runs all checks on so many ranks, unless the strategy refuses the request. Training must
  // reproduce the results on one process.
  absl::Status CheckRanks(int ranks, const KnownModel::TrainedAlone& alone, bool* suits) {
    ReportProgress(ranks, "planning");
    run_.backend = [] { return MakeReferenceBackend(); };
    const absl::Time begin = absl::Now();
    const absl::StatusOr<Planned> planned = planner_.PlanFor(ranks);
    if (absl::IsInvalidArgument(planned.status())) {
      refusal_ = planned.status();
      return absl::OkStatus();
    }
    if (!planned.ok()) return CheckError(ranks, "planning", planned.status());
    if (later_.ranks <= 1) later_ = {ranks, *planned, SecondSince(begin)};
    *suits = true;
    const absl::Status same =
        planner_.CheckSame(*planned, ranks, 1, ", when RANK and the like say that it is rank 1");
    if (!same.ok()) return CheckError(ranks, "planning again", same);
    ReportProgress(ranks, "memory limits");
    const absl::Status limits = planner_.CheckMemoryLimits(ranks);
    if (!limits.ok()) return CheckError(ranks, "memory limits", limits);
    ReportProgress(ranks, "the same training as one process");
    ASSIGN_OR_RETURN(const TrainingResult result,
                     TrainAndCompare(alone.reference, planned->plan, ranks, kReferenceTolerance));
    const absl::Status estimate = CheckEstimate(planned->estimate, planned->of_host);
    if (!estimate.ok()) return Error(ranks, estimate.message());
    RETURN_IF_ERROR(CheckCounted(planned->estimate, result, ranks));
    ReportProgress(ranks, "the same bits again, and memory as planned");
    run_.delays = 11;
    run_.check_memory = true;
    const absl::StatusOr<TrainingResult> again = Train(run_, planned->plan, ranks);
    run_.delays = 5;
    run_.check_memory = false;
    if (!again.ok()) return CheckError(ranks, "memory", again.status());
    if (again->outputs != result.outputs || again->states != result.states ||
        again->others != result.others) {
      return Error(ranks, "a second run, with other delays, gives other bits");
    }
    // Other kernels than one process has: strategies must not depend on which ones are fastest.
    run_.backend = [] { return MakeCpuBackend(1); };
    ASSIGN_OR_RETURN(const Plan plan_on_cpu,
                     WithDrawnKernels(run_, planned->plan, ranks, /*seed=*/ranks));
    ASSIGN_OR_RETURN(const TrainingResult on_cpu,
                     TrainAndCompare(alone.cpu, plan_on_cpu, ranks, kCpuTolerance));
    if (ranks != 2) return absl::OkStatus();
    for (const char* backend : {"shm", "tcp"}) {
      ReportProgress(ranks, absl::StrCat("the same bits on processes over ", backend));
      const absl::Status same = TrainOnProcesses(run_, plan_on_cpu, ranks, backend, on_cpu);
      if (!same.ok()) return CheckError(ranks, absl::StrCat("on processes over ", backend), same);
    }
    ReportProgress(ranks, "checkpoints that other ranks and strategies continue");
    return CheckCheckpoints(*planned);
  }

  absl::StatusOr<TrainingResult> TrainInPrecision(const PrecisionChoice& precision) {
    Plan plan;
    *plan.add_stages()->mutable_precision() = precision;
    absl::StatusOr<TrainingResult> result = Train(run_, plan, 1);
    if (!result.ok()) return CheckError(1, "training", result.status());
    return result;
  }

  // Trains under a Plan, and checks that the result is that of one process. Returns it. Where
  // values jump, 16 bits may be on the other side of a jump than the full precision, so the process
  // has the precision of the Plan.
  absl::StatusOr<TrainingResult> TrainAndCompare(const std::vector<OnOneProcess>& alone,
                                                 const Plan& plan, int ranks, double tolerance) {
    absl::StatusOr<TrainingResult> result = Train(run_, plan, ranks);
    if (!result.ok()) return CheckError(ranks, "training", result.status());
    const bool lowers = LowersPrecision(plan);
    if (lowers) tolerance = kLoweredTolerance;
    std::vector<OnOneProcess> lowered;
    if (lowers && HasJumps(run_)) {
      tolerance = kLoweredJumpTolerance;
      ASSIGN_OR_RETURN(TrainingResult expected, TrainInPrecision(plan.stages(0).precision()));
      lowered.push_back({"one process in the same precision", std::move(expected)});
    }
    for (const OnOneProcess& expected : lowered.empty() ? alone : lowered) {
      const Difference difference =
          CompareTraining(run_, lowers, expected.result, *result, tolerance);
      if (difference.relative <= tolerance) continue;
      const std::string times =
          difference.factor == 0 ? ""
                                 : absl::StrCat("is ", difference.factor, " times as large, and ");
      return Error(ranks,
                   absl::StrCat("training differs from ", expected.description, " in ",
                                difference.where, ", which ", times, "differs by ",
                                difference.relative, " of its norm; ", tolerance, " is allowed"));
    }
    return result;
  }

  // Compares the estimate with what the communicators have counted, and with the memory.
  absl::Status CheckCounted(const StepCost& estimate, const TrainingResult& result, int ranks) {
    comm::Traffic estimated = {};
    for (const StepCost::Collective& collective : estimate.collectives()) {
      for (size_t i = 0; i < estimated.size(); ++i) {
        if (OperationName(i) != collective.operation()) continue;
        estimated[i].calls += collective.calls();
        estimated[i].bytes_sent += collective.bytes();
      }
    }
    for (size_t i = 0; i < estimated.size(); ++i) {
      if (estimated[i].calls == result.traffic[i].calls &&
          estimated[i].bytes_sent == result.traffic[i].bytes_sent) {
        continue;
      }
      return Error(ranks, absl::StrCat("its estimate says ", estimated[i].calls, " calls of ",
                                       OperationName(i), " and ", estimated[i].bytes_sent,
                                       " bytes sent; ", result.traffic[i].calls, " and ",
                                       result.traffic[i].bytes_sent, " were counted"));
    }
    if (estimate.peak_bytes() == result.peak_bytes) return absl::OkStatus();
    return Error(ranks, absl::StrCat("its estimate says ", estimate.peak_bytes(),
                                     " bytes of memory at the peak; ", result.peak_bytes,
                                     " were planned and used"));
  }

  // Checks that a request that suits the options has the same Plan in an even and in an odd second.
  // Its first Plan shows one of them. Planning that begins in one second and ends in another shows
  // neither, and is repeated a few times.
  absl::Status CheckPlanInLaterSeconds() {
    if (later_.ranks == 0) return absl::OkStatus();
    ReportProgress(later_.ranks, "the same Plan a second later");
    bool seen[2] = {false, false};
    if (later_.second.has_value()) seen[*later_.second % 2] = true;
    for (int attempt = 0; attempt < kPlansInLaterSeconds && !(seen[0] && seen[1]); ++attempt) {
      // Even and odd seconds alternate until one of them is seen. A repetition begins with a
      // second, because what is left of the present one may be too short.
      const int64_t parity = seen[0] ? 1 : seen[1] ? 0 : attempt % 2;
      int64_t second = absl::ToUnixSeconds(absl::Now()) + (attempt > 0 ? 1 : 0);
      if (second % 2 != parity) ++second;
      absl::SleepFor(absl::FromUnixSeconds(second) + kClockTick - absl::Now());
      const absl::Time begin = absl::Now();
      const absl::Status same = planner_.CheckSame(later_.planned, later_.ranks, 0,
                                                   ", when the clock shows a later second");
      if (!same.ok()) return CheckError(later_.ranks, "planning again", same);
      if (const auto shown = SecondSince(begin)) seen[*shown % 2] = true;
    }
    return absl::OkStatus();
  }

  // Checks checkpoints of 2 ranks: of the strategy, continued under other Plans, and of another
  // Plan.
  absl::Status CheckCheckpoints(const Planned& planned) {
    const double tolerance = LowersPrecision(planned.plan) ? kLoweredTolerance : kCpuTolerance;
    const auto continued = [&](int ranks, Plan plan) {
      FillInSettings(planner_.Settings(), plan);
      return ContinuedRun{ranks, std::move(plan)};
    };
    const ContinuedRun own = {2, planned.plan};
    const ContinuedRun sharded = continued(2, FullyShardedPlan(run_.graphs));
    std::vector<ContinuedRun> others = {continued(1, Plan()),
                                        continued(2, DataParallelPlan(run_.graphs)), sharded};
    std::vector<std::string> names = {", continued by one process",
                                      ", continued by data parallel ranks",
                                      ", continued by fully sharded ranks"};
    // The options may not suit 3 ranks.
    if (const absl::StatusOr<Planned> on_3 = planner_.PlanFor(3); on_3.ok()) {
      others.push_back({3, on_3->plan});
      names.push_back(", continued by 3 ranks");
    }
    std::vector<absl::Status> results = CheckContinued(run_, own, others, tolerance);
    names.push_back(" of fully sharded ranks, continued");
    results.push_back(CheckContinued(run_, sharded, {own}, tolerance).front());
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].ok()) continue;
      return CheckError(2, absl::StrCat("a checkpoint", names[i]), results[i]);
    }
    return absl::OkStatus();
  }

  const Plugin& plugin_;
  const StrategyChecks& checks_;
  const std::string model_;
  KnownModel& known_;
  // The request that is planned again in later seconds: the first of several ranks that suits the
  // options (one rank alone needs no collectives that could differ), or of one; ranks is 0 if none
  // does.
  struct {
    int ranks = 0;
    Planned planned;
    std::optional<int64_t> second;  // in which it was planned first, if in one
  } later_;
  absl::Status refusal_;  // of a request that does not suit the options
  TrainingRun run_;
  StrategyPlanner planner_;
};

}  // namespace

absl::Status CheckStrategy(const Plugin& plugin, const StrategyChecks& checks,
                           KnownModels& models) {
  ASSIGN_OR_RETURN(const OptionValues options, ReadOptions(plugin, checks.options));
  bool suits = false;
  absl::Status refusal;
  for (const std::string& model : checks.models) {
    Checker checker(plugin, options, checks, model, models.Of(model));
    RETURN_IF_ERROR(checker.Run(/*a_second_later=*/&model == &checks.models.front(), &suits));
    if (!checker.refusal().ok()) refusal = checker.refusal();
  }
  if (suits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the options [",
                                                 absl::StrJoin(checks.options, ","),
                                                 "] suit none of the models: ", refusal.message()));
}

}  // namespace tessera
