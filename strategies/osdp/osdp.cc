// Optimal sharded data parallel (arXiv 2209.13258): each block of a model is replicated or sharded,
// in one of several ways, and recomputed or not, so that a step takes the least time within the
// memory limit.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "strategies/api/kit.h"
#include "strategies/api/search/best_batch.h"
#include "strategies/api/search/plan_search.h"
#include "strategies/api/units.h"
#include "strategies/osdp/modes.h"
#include "strategies/osdp/space.h"

namespace tessera::strategy {
namespace {

constexpr double kWorthwhile = 0.01;  // a saved Plan holds if no other is faster by more than this

// Searches with several numbers of micro-batches; or, if `far` over the limit, with the extremes.
absl::Status SearchCounts(const osdp::Run& run, osdp::Settings settings, bool far,
                          search::PlanSearch& plans) {
  settings.sets_micro_batches = run.request.MayDecide(PlanRequest::MICRO_BATCHES);
  const auto with = [&settings](int64_t count) {
    settings.micro_batches = count;
    return settings;
  };
  std::vector<int64_t> counts = run.request.MicroBatchCounts(run.batch);
  if (far && counts.size() > 2) counts = {counts.front(), counts.back()};
  const auto may_fit = [&](int64_t count) -> absl::StatusOr<bool> {
    if (far) return true;
    return osdp::MayFit(run, with(count), plans);
  };
  return plans.SearchAscending(
      counts, may_fit, [&](int64_t count) { return osdp::MakeSpace(run, with(count), plans); });
}

// Slices and gathers that are not ahead only save memory. Of a large model, slices are tried if
// nothing else fits. If nothing seems to, all are tried, to find the smallest limit.
absl::Status SearchSpaces(const osdp::Run& run, search::PlanSearch& plans) {
  ASSIGN_OR_RETURN(const bool large, plans.IsLarge());
  osdp::Settings settings = {.batch = run.request.MayDecide(PlanRequest::BATCH) ? run.batch : 0};
  for (const bool far : {false, true}) {
    for (const auto& [slices, ahead] : {std::pair(false, true), {true, true}, {true, false}}) {
      if ((!slices && !large) || plans.best() != nullptr) continue;
      settings.slices = slices, settings.prefetches = ahead;
      RETURN_IF_ERROR(SearchCounts(run, settings, far, plans));
    }
  }
  return absl::OkStatus();
}

// Finds the fastest Plan for a batch of so many rows, which the context has. The Plan states them
// if the user leaves them open.
absl::StatusOr<search::Decided> Decide(const Request& request, int64_t batch,
                                       TesseraContext* context, Host& host) {
  ASSIGN_OR_RETURN(const ModelInfo model, host.ModelWithSplits(context));
  const std::vector<Unit> units = UnitsOf(model, osdp::kSlices);
  const osdp::Run run = {request, batch, context, model, units, request.NodeRanks(), host};
  search::PlanSearch plans(request.memory_limit_bytes(), host, context);
  const auto search = [&] { return SearchSpaces(run, plans); };
  ASSIGN_OR_RETURN(const search::Candidate* const best, plans.Find(search));
  return search::Decided{best->plan, best->cost, plans.Explain(*best), batch};
}

class Osdp : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    const auto decide = [&](int64_t batch, TesseraContext* context) {
      return Decide(request, batch, context, host);
    };
    ASSIGN_OR_RETURN(const search::Decided best,
                     request.MayDecide(PlanRequest::BATCH)
                         ? search::DecideBatch(request, host, kWorthwhile, decide)
                         : decide(request.batch(), nullptr));
    host.Log(best.explanation.notes(0));
    host.Explain(best.explanation);
    return best.plan;
  }

  absl::StatusOr<std::string> Check(const Request& request, const Plan& plan, Host& host) override {
    ASSIGN_OR_RETURN(const StepCost saved, host.Lower(plan));
    ASSIGN_OR_RETURN(const search::Decided best, Decide(request, request.batch(), nullptr, host));
    const double seconds = best.cost.step_seconds();
    if (saved.step_seconds() <= seconds * (1 + kWorthwhile)) return "";
    return absl::StrFormat(
        "another Plan is faster by %.1f%%: %.4g s instead of %.4g s, in %d bytes",
        100 * (saved.step_seconds() / seconds - 1), seconds, saved.step_seconds(),
        best.cost.peak_bytes());
  }
};

}  // namespace

TESSERA_STRATEGY(
    Osdp, {
              .name = "osdp",
              .version = "0.2",
              .summary = "shards as much as the memory limit requires, where that costs the least",
              .needs_minor = 1,
          });

}  // namespace tessera::strategy
