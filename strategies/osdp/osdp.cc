// Optimal sharded data parallel (arXiv 2209.13258): each block of a model is replicated or sharded,
// in one of several ways, and recomputed or not, so that a step takes the least time within the
// memory limit.
#include <algorithm>
#include <cmath>
#include <cstddef>
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

using search::Candidate;

constexpr double kWorthwhile = 0.01;  // a saved Plan holds if no other is faster by more than this
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A search for the fastest Plan at one batch.
class Planner {
 public:
  // `batch` rows in the context; the Plan states them if the user leaves them open.
  Planner(const Request& request, int64_t batch, TesseraContext* context, const ModelInfo& model,
          Host& host)
      : run_{request, batch, context, model, units_, host},
        units_(UnitsOf(model, osdp::kSlices)),
        plans_(request.memory_limit_bytes(), host, context) {}

  absl::StatusOr<const Candidate*> Find();
  Explanation Explain(const Candidate& best) const { return plans_.Explain(best); }

 private:
  // Searches with several numbers of micro-batches.
  absl::Status SearchCounts(osdp::Settings settings);

  const osdp::Run run_;
  const std::vector<Unit> units_;
  search::PlanSearch plans_;
};

// More micro-batches need less memory and take more time, if the same is sharded and recomputed.
absl::Status Planner::SearchCounts(osdp::Settings settings) {
  settings.sets_micro_batches = run_.request.MayDecide(PlanRequest::MICRO_BATCHES);
  return search::SearchAscending(
      run_.request.MicroBatchCounts(run_.batch), [&](int64_t count) -> absl::StatusOr<double> {
        if (plans_.size() > 0 && run_.host.cancelled()) return kInfinite;
        settings.micro_batches = count;
        absl::StatusOr<search::Space> space = osdp::MakeSpace(run_, settings, plans_);
        // Other settings may be possible, if the first ones are.
        const bool first = plans_.size() == 0;
        if (absl::IsInvalidArgument(space.status()) && !first) return kInfinite;
        RETURN_IF_ERROR(space.status());
        return plans_.Search(*std::move(space));
      });
}

absl::StatusOr<const Candidate*> Planner::Find() {
  // Slices only save memory, so they are tried if nothing else fits; and then without gathers
  // ahead.
  const int64_t batch = run_.request.MayDecide(PlanRequest::BATCH) ? run_.batch : 0;
  for (const auto& [slices, prefetches] : {std::pair(false, true), {true, true}, {true, false}}) {
    if (plans_.best() != nullptr || run_.host.cancelled()) break;
    RETURN_IF_ERROR(SearchCounts({.batch = batch, .slices = slices, .prefetches = prefetches}));
  }
  return plans_.Finish();
}

// The fastest Plan of a batch.
struct Decided {
  Plan plan;
  Explanation explanation;
  int64_t batch = 0;
  double step_seconds = 0;

  double RowsPerSecond() const { return static_cast<double>(batch) / step_seconds; }
};

absl::StatusOr<Decided> Decide(const Request& request, int64_t batch, TesseraContext* context,
                               Host& host) {
  ASSIGN_OR_RETURN(const ModelInfo model, host.ModelWithSplits(context));
  Planner planner(request, batch, context, model, host);
  ASSIGN_OR_RETURN(const Candidate* const best, planner.Find());
  return Decided{best->plan, planner.Explain(*best), batch, best->cost.step_seconds()};
}

// Decides the batch with which the most rows per second are trained.
absl::StatusOr<Decided> DecideWithBatch(const Request& request, Host& host) {
  Decided best;
  int tried = 0;
  const auto rate = [&](int64_t batch) -> absl::StatusOr<double> {
    if (batch % request.ranks() != 0 || host.cancelled()) return 0;
    ASSIGN_OR_RETURN(TesseraContext* const context, host.OpenContext(batch, 0));
    absl::StatusOr<Decided> found = Decide(request, batch, context, host);
    host.CloseContext(context);
    ++tried;
    // The smallest batch fits, or nothing does.
    if (absl::IsResourceExhausted(found.status()) && best.batch > 0) return 0;
    RETURN_IF_ERROR(found.status());
    const double rows = found->RowsPerSecond();
    if (best.batch == 0 || rows > (1 + kWorthwhile) * best.RowsPerSecond())
      best = *std::move(found);
    return rows;
  };
  RETURN_IF_ERROR(search::FindBestRate(request.ranks(), kWorthwhile, rate).status());
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
    ASSIGN_OR_RETURN(const ModelInfo model, host.ModelWithSplits());
    Planner planner(request, request.batch(), nullptr, model, host);
    ASSIGN_OR_RETURN(const Candidate* const best, planner.Find());
    const double seconds = best->cost.step_seconds();
    if (saved.step_seconds() <= seconds * (1 + kWorthwhile)) return "";
    return absl::StrFormat(
        "another Plan is faster by %.1f%%: %.4g s instead of %.4g s, in %d bytes",
        100 * (saved.step_seconds() / seconds - 1), seconds, saved.step_seconds(),
        best->cost.peak_bytes());
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
