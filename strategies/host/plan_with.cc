#include "strategies/host/plan_with.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/plan/check.h"
#include "core/status/status_macros.h"
#include "core/tensor/dtype.h"
#include "core/text/human_units.h"
#include "core/train/programs.h"
#include "strategies/host/limited_call.h"
#include "strategies/host/plugin_call.h"

namespace tessera {
namespace {

// Checks that a Plan does not contradict the settings of its run.
absl::Status CheckSettings(const Plan& plan, const strategy::PlanRequest& request) {
  const auto may_decide = [&request](strategy::PlanRequest::Setting setting) {
    return absl::c_linear_search(request.open(), setting);
  };
  if (plan.batch() != 0 && plan.batch() != request.batch() &&
      !may_decide(strategy::PlanRequest::BATCH)) {
    return absl::InvalidArgumentError(absl::StrCat("its Plan is for a batch of ", plan.batch(),
                                                   " rows, but the run has ", request.batch(),
                                                   ": set --batch=", plan.batch()));
  }
  const int64_t micro_batches = std::max<int64_t>(1, request.micro_batches());
  const bool may_decide_micro_batches = may_decide(strategy::PlanRequest::MICRO_BATCHES);
  for (const Stage& stage : plan.stages()) {
    const PrecisionChoice &planned = stage.precision(), &set = request.precision();
    if (planned.has_parameters() && set.has_parameters() &&
        planned.parameters() != set.parameters()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "its Plan uses parameters in ", DTypeName(static_cast<DType>(planned.parameters())),
          ", but the run has --dtype=", DTypeName(static_cast<DType>(set.parameters())),
          ": leave one of them out"));
    }
    for (const PlanPart& part : stage.parts()) {
      if (part.graph() != kTrain || part.micro_batches() == 0 || may_decide_micro_batches) continue;
      if (part.micro_batches() == micro_batches) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("its Plan has ", part.micro_batches(), " micro-batches, but the run has ",
                       micro_batches, ": set --micro_batches=", part.micro_batches()));
    }
  }
  return absl::OkStatus();
}

// Checks that the times of an estimate are numbers that a time can be.
absl::Status CheckTimes(const StepCost& cost) {
  std::vector<std::pair<std::string, double>> times = {
      {"step_seconds", cost.step_seconds()},
      {"computation_seconds", cost.computation_seconds()},
      {"exposed_seconds", cost.exposed_seconds()}};
  for (const StepCost::Time& time : cost.times()) {
    times.emplace_back(absl::StrCat("seconds of '", OneLine(time.category()), "'"), time.seconds());
  }
  for (const StepCost::Collective& collective : cost.collectives()) {
    const std::string of_operation = absl::StrCat(" of '", OneLine(collective.operation()), "'");
    times.emplace_back("seconds" + of_operation, collective.seconds());
    times.emplace_back("exposed_seconds" + of_operation, collective.exposed_seconds());
  }
  for (const auto& [name, seconds] : times) {
    if (std::isfinite(seconds) && seconds >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("its estimate has ", name, " ", seconds,
                                                   ": a time is a finite number of 0 or more"));
  }
  return absl::OkStatus();
}

// Calls a function of the plugin that returns a message, `what`.
template <typename Result, typename Request>
absl::StatusOr<Result> Ask(const Plugin& plugin, const PluginFunction& function,
                           const Request& request, absl::string_view what,
                           const PluginCallOptions& options, LimitedCall& call) {
  const absl::StatusOr<std::string> bytes = call.Run(plugin, function, request.SerializeAsString());
  if (call.WasStopped(bytes.status())) {
    const std::string its = absl::StrCat("strategy ", plugin.name(), ": its ", what);
    if (options.stop && options.stop()) {
      return absl::CancelledError(absl::StrCat(its, " was not finished when it was stopped"));
    }
    return absl::DeadlineExceededError(absl::StrCat(its, " took too long"));
  }
  RETURN_IF_ERROR(bytes.status());
  Result result;
  if (result.ParseFromString(*bytes)) return result;
  return absl::InvalidArgumentError(absl::StrCat("strategy ", plugin.name(), ": returned ",
                                                 bytes->size(), " bytes that are no ", what));
}

// Returns why a plugin was asked to stop: the user wants to end, or its time is over.
std::string ReasonOfStop(const Plugin& plugin, const PluginCallOptions& options, bool by_user) {
  if (by_user) return absl::StrCat("strategy ", plugin.name(), ": stopped while it planned");
  return absl::StrCat("strategy ", plugin.name(), ": planning took longer than ",
                      FormatSeconds(std::chrono::duration<double>(options.limit).count()));
}

// Sets what the times and bytes of the plugin's reasons are compared with.
void SetDecidedCost(const PlanningContext& context, StrategyPlan& made) {
  strategy::Explanation& reasons = made.explanation;
  if (reasons.decisions_size() == 0 && !(reasons.bound_seconds() > 0)) return;
  strategy::LowerPlans request;
  *request.add_plans() = made.plan;
  const strategy::LoweredPlans lowered = context.Lower(request);
  reasons.set_step_seconds(lowered.plans(0).cost().step_seconds());
  reasons.set_peak_bytes(lowered.plans(0).cost().peak_bytes());
}

}  // namespace

absl::StatusOr<StrategyPlan> PlanWith(const Plugin& plugin, const strategy::PlanRequest& request,
                                      const std::shared_ptr<const PlanningContext>& context,
                                      const PluginCallOptions& options) {
  LimitedCall call(context, options);
  const absl::StatusOr<std::string> result =
      call.Run(plugin, {"`make_plan`", plugin.table().make_plan}, request.SerializeAsString());
  StrategyPlan made;
  const bool by_user = call.was_stopped() && options.stop && options.stop();
  const std::string reason = ReasonOfStop(plugin, options, by_user);
  if (call.was_stopped()) made.notes = {absl::StrCat(reason, ": its best Plan so far is used")};
  if (result.ok()) {
    ASSIGN_OR_RETURN(made.plan, ReadPlanOf(plugin, request, *result));
  } else if (!by_user && !call.WasStopped(result.status())) {
    return result.status();
  } else if (call.best().has_value()) {
    ASSIGN_OR_RETURN(made.plan, ReadPlanOf(plugin, request, call.best()->SerializeAsString()));
  } else if (by_user) {
    return absl::CancelledError(reason);
  } else {
    return absl::DeadlineExceededError(
        absl::StrCat(reason, ", and it has reported no Plan so far; allow it more time"));
  }
  made.explanation = call.explanation();
  SetDecidedCost(*context, made);
  return made;
}

absl::StatusOr<Plan> ReadPlanOf(const Plugin& plugin, const strategy::PlanRequest& request,
                                const std::string& bytes) {
  Plan plan;
  if (!plan.ParseFromString(bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("strategy ", plugin.name(), ": returned ",
                                                   bytes.size(), " bytes that are no Plan"));
  }
  plan.clear_kernels();  // they are the host's choice
  const auto error = [&](const absl::Status& status, absl::string_view prefix) {
    return absl::Status(status.code(),
                        absl::StrCat("strategy ", plugin.name(), ": ", prefix, status.message()));
  };
  const absl::Status fits = CheckPlanForm(plan);
  if (!fits.ok()) return error(fits, "its Plan cannot be run: ");
  const absl::Status agrees = CheckSettings(plan, request);
  if (!agrees.ok()) return error(agrees, "");
  return plan;
}

absl::StatusOr<StepCost> EstimateWith(const Plugin& plugin, const strategy::PlanRequest& request,
                                      const CompiledRun& compiled,
                                      std::shared_ptr<const PlanningContext> context,
                                      const PluginCallOptions& options) {
  if (plugin.table().estimate == nullptr) return context->Estimate(compiled);
  strategy::EstimateRequest message;
  *message.mutable_request() = request;
  *message.mutable_plan() = compiled.plan;
  LimitedCall call(std::move(context), options);
  ASSIGN_OR_RETURN(const StepCost cost,
                   Ask<StepCost>(plugin, {"`estimate`", plugin.table().estimate}, message,
                                 "estimate", options, call));
  const absl::Status times = CheckTimes(cost);
  if (times.ok()) return cost;
  return absl::Status(times.code(),
                      absl::StrCat("strategy ", plugin.name(), ": ", times.message()));
}

absl::StatusOr<std::string> CheckWith(const Plugin& plugin, const strategy::PlanRequest& request,
                                      const CompiledRun& compiled,
                                      std::shared_ptr<const PlanningContext> context,
                                      const PluginCallOptions& options) {
  const int64_t limit = request.memory_limit_bytes();
  if (limit > 0 && compiled.arena_bytes() > limit) {
    return absl::StrCat("it needs ", FormatBytes(compiled.arena_bytes()),
                        ", and the memory limit is ", FormatBytes(limit));
  }
  if (!TESSERA_HAS(&plugin.table(), check_plan)) return "";
  strategy::CheckRequest message;
  *message.mutable_request() = request;
  *message.mutable_plan() = compiled.plan;
  LimitedCall call(std::move(context), options);
  ASSIGN_OR_RETURN(const strategy::CheckResult result,
                   Ask<strategy::CheckResult>(plugin, {"`check_plan`", plugin.table().check_plan},
                                              message, "answer", options, call));
  return OneLine(result.changed());
}

}  // namespace tessera
