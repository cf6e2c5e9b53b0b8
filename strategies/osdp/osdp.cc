// Optimal sharded data parallel (arXiv 2209.13258): each block of a model is replicated or sharded,
// in one of several ways, and recomputed or not, so that a step takes the least time within the
// memory limit.
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "strategies/api/kit.h"
#include "strategies/api/search/one_number.h"
#include "strategies/api/search/plan_search.h"
#include "strategies/api/units.h"
#include "strategies/osdp/modes.h"
#include "strategies/osdp/space.h"

namespace tessera::strategy {
namespace {

constexpr double kWorthwhile = 0.01;  // a saved Plan holds if no other is faster by more than this
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The fastest Plan of a batch.
struct Decided {
  Plan plan;
  StepCost cost;
  Explanation explanation;
  int64_t batch = 0;

  double RowsPerSecond() const { return static_cast<double>(batch) / cost.step_seconds(); }
};

// Searches with several numbers of micro-batches. More of them need less memory and take more time,
// if the same is sharded and recomputed.
absl::Status SearchCounts(const osdp::Run& run, osdp::Settings settings,
                          search::PlanSearch& plans) {
  settings.sets_micro_batches = run.request.MayDecide(PlanRequest::MICRO_BATCHES);
  return search::SearchAscending(
      run.request.MicroBatchCounts(run.batch), [&](int64_t count) -> absl::StatusOr<double> {
        if (plans.size() > 0 && run.host.cancelled()) return kInfinite;
        settings.micro_batches = count;
        absl::StatusOr<search::Space> space = osdp::MakeSpace(run, settings, plans);
        if (absl::IsResourceExhausted(space.status())) return kInfinite;
        // Other settings may be possible, if the first ones are.
        if (absl::IsInvalidArgument(space.status()) && plans.size() > 0) return kInfinite;
        RETURN_IF_ERROR(space.status());
        return plans.Search(*std::move(space));
      });
}

// Slices and gathers that are not ahead only save memory. Of a large model, slices are tried if
// nothing else fits. What seems to need far too much comes last, to find the smallest limit.
absl::Status SearchSpaces(const osdp::Run& run, search::PlanSearch& plans) {
  ASSIGN_OR_RETURN(const bool large, plans.IsLarge());
  osdp::Settings settings = {.batch = run.request.MayDecide(PlanRequest::BATCH) ? run.batch : 0};
  for (const bool all : {false, true}) {
    for (const auto& [slices, ahead] : {std::pair(false, true), {true, true}, {true, false}}) {
      if ((!slices && !large) || plans.best() != nullptr) continue;
      settings.slices = slices, settings.prefetches = ahead, settings.tries_all = all;
      RETURN_IF_ERROR(SearchCounts(run, settings, plans));
    }
  }
  return absl::OkStatus();
}

// Finds the fastest Plan for a batch of so many rows, which the context has. The Plan states them
// if the user leaves them open.
absl::StatusOr<Decided> Decide(const Request& request, int64_t batch, TesseraContext* context,
                               Host& host) {
  ASSIGN_OR_RETURN(const ModelInfo model, host.ModelWithSplits(context));
  const std::vector<Unit> units = UnitsOf(model, osdp::kSlices);
  const osdp::Run run = {request, batch, context, model, units, request.NodeRanks(), host};
  search::PlanSearch plans(request.memory_limit_bytes(), host, context);
  const auto search = [&] { return SearchSpaces(run, plans); };
  ASSIGN_OR_RETURN(const search::Candidate* const best, plans.Find(search));
  return Decided{best->plan, best->cost, plans.Explain(*best), batch};
}

// Decides the batch with which the most rows per second are trained.
absl::StatusOr<Decided> DecideWithBatch(const Request& request, Host& host) {
  // A row of each rank in each micro-batch, if the user says how many there are.
  const int64_t first = request.ranks() * request.MicroBatchCounts(request.ranks()).front();
  Decided best;
  int tried = 0;
  const auto rate = [&](int64_t batch) -> absl::StatusOr<double> {
    if (batch % first != 0 || (tried > 0 && host.cancelled())) return 0;
    ASSIGN_OR_RETURN(TesseraContext* const context, host.OpenContext(batch, 0));
    absl::StatusOr<Decided> found = Decide(request, batch, context, host);
    host.CloseContext(context);
    ++tried;
    // The smallest batch fits, or nothing does.
    if (absl::IsResourceExhausted(found.status()) && best.batch > 0) return 0;
    RETURN_IF_ERROR(found.status());
    const double rows = found->RowsPerSecond();
    if (best.batch == 0 || rows > (1 + kWorthwhile) * best.RowsPerSecond()) {
      best = *std::move(found);
    }
    return rows;
  };
  RETURN_IF_ERROR(search::FindBestRate(first, kWorthwhile, rate).status());
  best.explanation.add_notes(absl::StrFormat("of %d batches, %d rows train the most: %.4g a second",
                                             tried, best.batch, best.RowsPerSecond()));
  return best;
}

class Osdp : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    ASSIGN_OR_RETURN(const Decided best, request.MayDecide(PlanRequest::BATCH)
                                             ? DecideWithBatch(request, host)
                                             : Decide(request, request.batch(), nullptr, host));
    host.Log(best.explanation.notes(0));
    host.Explain(best.explanation);
    return best.plan;
  }

  absl::StatusOr<std::string> Check(const Request& request, const Plan& plan, Host& host) override {
    ASSIGN_OR_RETURN(const StepCost saved, host.Lower(plan));
    ASSIGN_OR_RETURN(const Decided best, Decide(request, request.batch(), nullptr, host));
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
