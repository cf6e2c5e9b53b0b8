#include "strategies/conformance/check_strategy.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/cost/cluster.h"
#include "core/kernels/cpu/backend.h"
#include "core/kernels/reference/backend.h"
#include "core/program/compile.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"
#include "strategies/conformance/check_checkpoints.h"
#include "strategies/conformance/rank_training.h"
#include "strategies/conformance/small_models.h"
#include "strategies/host/option_values.h"
#include "strategies/host/plan_with.h"
#include "strategies/host/plugin_passes.h"

namespace tessera {
namespace {

constexpr double kReferenceTolerance = 1e-10;
constexpr double kCpuTolerance = 1e-5;
// Of a strategy that lowers the precision: it still finds a wrong factor.
constexpr double kLoweredTolerance = 5e-2;

struct KitModel {
  const char* name;
  TrainingRun (*make)();
};

GptSizes Adamw(GptSizes sizes) {
  sizes.optimizer = "adamw";
  return sizes;
}

// Dropout and ignored targets are in all of them; parts are padded, or empty, in the odd ones.
const std::vector<KitModel>& Models() {
  static const auto* const models = new std::vector<KitModel>{
      {"gpt", [] { return SmallGpt({}); }},
      {"gpt_odd", [] { return SmallGpt(OddSizes()); }},
      {"gpt_untied", [] { return SmallGpt({.clip_norm = 0.5, .untied_head = true}); }},
      {"gpt_adamw", [] { return SmallGpt(Adamw(OddSizes())); }},
      {"mlp", [] { return SmallMlp(); }},
  };
  return *models;
}

std::string OperationName(size_t operation) {
  return std::string(CollectiveOperationName(static_cast<CollectiveOperation>(operation)));
}

bool LowersPrecision(const Plan& plan) {
  return plan.stages_size() > 0 && plan.stages(0).has_precision();
}

// What a strategy makes for a run of some ranks.
struct Planned {
  Plan plan;
  StepCost estimate;
};

class Checker {
 public:
  Checker(const Plugin& plugin, const StrategyChecks& checks, const KitModel& model)
      : plugin_(plugin), checks_(checks), model_(model), run_(model.make()) {
    run_.steps = checks.steps;
    run_.plugin_passes = [this](const KernelCatalogue& catalogue) {
      auto passes = std::make_unique<LoadedPasses>("", &catalogue, Context(catalogue, 1));
      passes->Add(plugin_);
      return passes;
    };
  }

  // Sets *suits if the options suit the model on some number of ranks.
  absl::Status Run(bool* suits) {
    ASSIGN_OR_RETURN(options_, ReadOptions(plugin_, checks_.options));
    const absl::StatusOr<TrainingResult> alone = Train(run_, Plan(), 1);
    RETURN_IF_ERROR(alone.status());
    run_.backend = [] { return MakeCpuBackend(1); };
    const absl::StatusOr<TrainingResult> alone_on_cpu = Train(run_, Plan(), 1);
    RETURN_IF_ERROR(alone_on_cpu.status());
    for (const int ranks : checks_.ranks) {
      RETURN_IF_ERROR(CheckRanks(ranks, *alone, *alone_on_cpu, suits));
    }
    return absl::OkStatus();
  }

  const absl::Status& refusal() const { return refusal_; }

 private:
  absl::Status Failure(int ranks, absl::string_view what) const {
    return absl::InternalError(
        absl::StrCat(plugin_.name(), " [", absl::StrJoin(checks_.options, ","), "], ", model_.name,
                     ", ", ranks, ranks == 1 ? " rank: " : " ranks: ", what));
  }
  absl::Status Failed(int ranks, absl::string_view check, const absl::Status& status) const {
    return Failure(ranks, absl::StrCat(check, ": ", status.message()));
  }

  void Say(int ranks, absl::string_view what) const {
    if (checks_.progress == nullptr) return;
    checks_.progress(
        absl::StrCat(model_.name, ", ", ranks, ranks == 1 ? " rank: " : " ranks: ", what));
  }

  std::shared_ptr<const PlanningContext> Context(const KernelCatalogue& catalogue,
                                                 int ranks) const {
    const Cluster cluster = ClusterOfMachine("conformance", MachineRates());
    return std::make_shared<const PlanningContext>(
        run_.graphs, PlanningFor{&catalogue, ranks, cluster, SiteOnCluster(cluster, ranks)});
  }

  // Plans, twice, and estimates.
  absl::StatusOr<Planned> PlanFor(int ranks, const Backend& backend) {
    strategy::PlanRequest request;
    request.set_ranks(ranks);
    SetOptions(options_, request);
    *request.mutable_cluster() = ClusterOfMachine("conformance", MachineRates());
    request.set_micro_batches(1);
    const auto context = Context(backend, ranks);
    ASSIGN_OR_RETURN(StrategyPlan made, PlanWith(plugin_, request, context, {}));
    ASSIGN_OR_RETURN(const StrategyPlan again, PlanWith(plugin_, request, context, {}));
    if (made.plan.SerializeAsString() != again.plan.SerializeAsString()) {
      return absl::InternalError("it makes another Plan for the same request");
    }
    Planned planned;
    planned.plan = std::move(made.plan);
    const absl::Status fits = Estimate(request, backend, context, planned);
    // Only a request may be refused as InvalidArgument.
    if (!fits.ok()) return absl::InternalError(fits.message());
    return planned;
  }

  // Compiles the Plan, and estimates it.
  absl::Status Estimate(const strategy::PlanRequest& request, const Backend& backend,
                        const std::shared_ptr<const PlanningContext>& context, Planned& planned) {
    const auto passes = run_.plugin_passes(backend);
    ASSIGN_OR_RETURN(const CompiledRun compiled,
                     CompileRun(run_.graphs, planned.plan, backend, request.ranks(), passes.get()));
    ASSIGN_OR_RETURN(planned.estimate, EstimateWith(plugin_, request, compiled.plan, context, {}));
    return absl::OkStatus();
  }

  absl::Status CheckRanks(int ranks, const TrainingResult& alone,
                          const TrainingResult& alone_on_cpu, bool* suits) {
    Say(ranks, "planning");
    run_.backend = [] { return MakeReferenceBackend(); };
    const absl::StatusOr<Planned> planned = PlanFor(ranks, *run_.backend());
    if (absl::IsInvalidArgument(planned.status())) {
      refusal_ = planned.status();
      return absl::OkStatus();
    }
    if (!planned.ok()) return Failed(ranks, "planning", planned.status());
    *suits = true;
    Say(ranks, "the same training as one process");
    ASSIGN_OR_RETURN(const TrainingResult result,
                     TrainAs(alone, *planned, ranks, kReferenceTolerance));
    RETURN_IF_ERROR(CheckEstimate(planned->estimate, result, ranks));
    Say(ranks, "the same bits again, and memory as planned");
    run_.delays = 11;
    run_.check_memory = true;
    const absl::StatusOr<TrainingResult> again = Train(run_, planned->plan, ranks);
    run_.delays = 5;
    run_.check_memory = false;
    if (!again.ok()) return Failed(ranks, "memory", again.status());
    if (again->outputs != result.outputs || again->states != result.states) {
      return Failure(ranks, "a second run, with other delays, gives other bits");
    }
    run_.backend = [] { return MakeCpuBackend(1); };
    RETURN_IF_ERROR(TrainAs(alone_on_cpu, *planned, ranks, kCpuTolerance).status());
    if (ranks != 2) return absl::OkStatus();
    Say(ranks, "continuing a checkpoint on 3 ranks and as one process");
    return Checkpoints(*planned);
  }

  absl::StatusOr<TrainingResult> TrainAs(const TrainingResult& alone, const Planned& planned,
                                         int ranks, double tolerance) {
    absl::StatusOr<TrainingResult> result = Train(run_, planned.plan, ranks);
    if (!result.ok()) return Failed(ranks, "training", result.status());
    if (LowersPrecision(planned.plan)) tolerance = kLoweredTolerance;
    const Difference difference = run_.config.optimizer().kind() == "adamw"
                                      ? CompareParameters(alone, *result)
                                      : Compare(alone, *result);
    if (difference.relative <= tolerance) return result;
    return Failure(ranks,
                   absl::StrCat("training differs from one process in ", difference.where, " by ",
                                difference.relative, " of its norm; ", tolerance, " is allowed"));
  }

  absl::Status CheckEstimate(const StepCost& estimate, const TrainingResult& result, int ranks) {
    comm::Traffic estimated = {};
    for (const StepCost::Collective& each : estimate.collectives()) {
      for (size_t i = 0; i < estimated.size(); ++i) {
        if (OperationName(i) != each.operation()) continue;
        estimated[i].calls += each.calls();
        estimated[i].bytes_sent += each.bytes();
      }
    }
    for (size_t i = 0; i < estimated.size(); ++i) {
      if (estimated[i].calls == result.traffic[i].calls &&
          estimated[i].bytes_sent == result.traffic[i].bytes_sent) {
        continue;
      }
      return Failure(ranks, absl::StrCat("its estimate says ", estimated[i].calls, " calls of ",
                                         OperationName(i), " and ", estimated[i].bytes_sent,
                                         " bytes sent; ", result.traffic[i].calls, " and ",
                                         result.traffic[i].bytes_sent, " were counted"));
    }
    if (estimate.peak_bytes() == result.peak_bytes) return absl::OkStatus();
    return Failure(ranks, absl::StrCat("its estimate says ", estimate.peak_bytes(),
                                       " bytes of memory at the peak; ", result.peak_bytes,
                                       " were planned and used"));
  }

  absl::Status Checkpoints(const Planned& planned) {
    const double tolerance = LowersPrecision(planned.plan) ? kLoweredTolerance : kCpuTolerance;
    const ContinuedRun first = {2, planned.plan};
    const absl::Status alone = CheckContinued(run_, first, {1, Plan()}, tolerance);
    if (!alone.ok()) return Failed(2, "a checkpoint, continued by one process", alone);
    const absl::StatusOr<Planned> on_3 = PlanFor(3, *run_.backend());
    if (!on_3.ok()) return absl::OkStatus();  // the options do not suit 3 ranks
    const absl::Status other = CheckContinued(run_, first, {3, on_3->plan}, tolerance);
    return other.ok() ? other : Failed(2, "a checkpoint, continued by 3 ranks", other);
  }

  const Plugin& plugin_;
  const StrategyChecks& checks_;
  const KitModel& model_;
  OptionValues options_;
  absl::Status refusal_;  // of a request that does not suit the options
  TrainingRun run_;
};

}  // namespace

std::vector<std::string> ConformanceModels() {
  std::vector<std::string> names;
  for (const KitModel& model : Models()) names.push_back(model.name);
  return names;
}

absl::Status CheckStrategy(const Plugin& plugin, const StrategyChecks& checks) {
  bool suits = false;
  absl::Status refusal;
  for (const KitModel& model : Models()) {
    if (!checks.models.empty() && !absl::c_linear_search(checks.models, model.name)) continue;
    Checker checker(plugin, checks, model);
    RETURN_IF_ERROR(checker.Run(&suits));
    if (!checker.refusal().ok()) refusal = checker.refusal();
  }
  if (suits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the options [",
                                                 absl::StrJoin(checks.options, ","),
                                                 "] suit none of the models: ", refusal.message()));
}

}  // namespace tessera
