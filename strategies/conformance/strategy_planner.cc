#include "strategies/conformance/strategy_planner.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/cost/cluster.h"
#include "core/kernels/reference/backend.h"
#include "core/plan/run_settings.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"
#include "core/train/ranks/memory_limit.h"
#include "strategies/conformance/rank_environment.h"
#include "strategies/host/plan_with.h"
#include "strategies/host/plugin_passes.h"

namespace tessera {
namespace {

// A limit that no Plan can meet.
constexpr int64_t kNoMemory = 1;

// Returns the last whole number of a text.
std::optional<int64_t> LastNumber(absl::string_view text) {
  while (!text.empty() && !absl::ascii_isdigit(text.back())) text.remove_suffix(1);
  size_t begin = text.size();
  while (begin > 0 && absl::ascii_isdigit(text[begin - 1])) --begin;
  int64_t number = 0;
  if (!absl::SimpleAtoi(text.substr(begin), &number)) return std::nullopt;
  return number;
}

}  // namespace

PlanningContexts::PlanningContexts(const TrainingRun* run)
    : run_(*run),
      backend_(MakeReferenceBackend()),
      graphs_(std::make_shared<const std::vector<Graph>>(run->graphs)) {}

PlanningContexts::SharedContext PlanningContexts::Make(const KernelCatalogue& catalogue,
                                                       int ranks) const {
  const Cluster cluster = ClusterOfMachine("conformance", MachineRates());
  const Plan settings = PlanOfConfig(run_.config, run_.graphs);
  return std::make_shared<const PlanningContext>(
      graphs_, PlanningFor{&catalogue, ranks, cluster, SiteOnCluster(cluster, ranks), settings});
}

PlanningContexts::SharedContext PlanningContexts::For(int ranks) const {
  const MutexLock lock(&mutex_);
  SharedContext& context = contexts_[ranks];
  if (context == nullptr) context = Make(*backend_, ranks);
  return context;
}

Plan StrategyPlanner::Settings() const { return PlanOfConfig(run_.config, run_.graphs); }

absl::StatusOr<Planned> StrategyPlanner::PlanFor(int ranks, int64_t memory_limit) const {
  const RankEnvironmentGuard environment(0, ranks);
  return PlanOnce(ranks, memory_limit);
}

absl::StatusOr<Planned> StrategyPlanner::PlanOnce(int ranks, int64_t memory_limit) const {
  const strategy::PlanRequest request = RequestFor(ranks, memory_limit);
  const PlanningContexts::SharedContext context = contexts_->For(ranks);
  ASSIGN_OR_RETURN(StrategyPlan made, PlanWith(plugin_, request, context, {}));
  Planned planned;
  planned.plan = std::move(made.plan);
  FillInSettings(Settings(), planned.plan);
  const absl::Status fits = CompileAndEstimate(request, context, planned);
  if (fits.ok()) return planned;
  // InvalidArgument is reserved for a refused request.
  return absl::IsResourceExhausted(fits) ? fits : absl::InternalError(fits.message());
}

absl::Status StrategyPlanner::CheckSame(const Planned& planned, int ranks, int rank,
                                        absl::string_view when) const {
  const RankEnvironmentGuard environment(rank, ranks);
  ASSIGN_OR_RETURN(const Planned again, PlanOnce(ranks, 0));
  const auto differs = [&](absl::string_view what) {
    return absl::InternalError(absl::StrCat("it makes another ", what, when));
  };
  if (again.plan.SerializeAsString() != planned.plan.SerializeAsString()) {
    return differs("Plan for the same request");
  }
  if (again.programs != planned.programs) return differs("program of the same Plan");
  if (again.estimate.SerializeAsString() == planned.estimate.SerializeAsString()) {
    return absl::OkStatus();
  }
  return differs("estimate for the same request");
}

absl::Status StrategyPlanner::CheckMemoryLimits(int ranks) const {
  const auto wrong = [](absl::string_view what, const absl::Status& status) {
    return absl::InternalError(absl::StrCat(what, status.ok() ? "" : ": ", status.message()));
  };
  const absl::Status refused = PlanFor(ranks, kNoMemory).status();
  if (!absl::IsResourceExhausted(refused)) {
    return wrong("a memory limit of 1 byte is no error that says so", refused);
  }
  const std::optional<int64_t> smallest = LastNumber(refused.message());
  if (!smallest.has_value() || *smallest <= kNoMemory) {
    return wrong("the error for a memory limit of 1 byte does not end with the smallest limit",
                 refused);
  }
  const absl::Status met = PlanFor(ranks, *smallest).status();
  if (!met.ok()) {
    return wrong(absl::StrCat("it says that a memory limit of ", *smallest, " bytes can be met"),
                 met);
  }
  if (absl::IsResourceExhausted(PlanFor(ranks, *smallest - 1).status())) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("it says that ", *smallest,
                                          " bytes is the smallest memory limit that can be met, "
                                          "and it accepts one byte less"));
}

bool StrategyPlanner::Refuses(int ranks) const {
  const auto made = PlanWith(plugin_, RequestFor(ranks, 0), contexts_->For(ranks), {});
  return absl::IsInvalidArgument(made.status());
}

std::unique_ptr<PluginPasses> StrategyPlanner::MakePasses(const KernelCatalogue& catalogue) const {
  auto passes = std::make_unique<LoadedPasses>(&catalogue, contexts_->Make(catalogue, 1));
  passes->Add(plugin_);
  return passes;
}

strategy::PlanRequest StrategyPlanner::RequestFor(int ranks, int64_t memory_limit) const {
  strategy::PlanRequest request;
  request.set_ranks(ranks);
  SetOptions(options_, request);
  *request.mutable_cluster() = ClusterOfMachine("conformance", MachineRates());
  request.set_micro_batches(run_.config.micro_batches());
  request.set_memory_limit_bytes(memory_limit);
  return request;
}

absl::Status StrategyPlanner::CompileAndEstimate(const strategy::PlanRequest& request,
                                                 const PlanningContexts::SharedContext& context,
                                                 Planned& planned) const {
  const auto passes = MakePasses(contexts_->catalogue());
  ASSIGN_OR_RETURN(
      const CompiledRun compiled,
      CompileRun(run_.graphs, planned.plan, contexts_->catalogue(), request.ranks(), passes.get()));
  const int64_t limit = request.memory_limit_bytes();
  RETURN_IF_ERROR(
      CheckMemoryLimit(compiled.arena_bytes(), limit, absl::StrCat(limit, " bytes"), "each rank"));
  for (const Program& program : compiled.programs) {
    planned.programs.push_back(program.Fingerprint());
  }
  planned.of_host = context->Estimate(compiled);
  ASSIGN_OR_RETURN(planned.estimate, EstimateWith(plugin_, request, compiled, context, {}));
  return absl::OkStatus();
}

}  // namespace tessera
