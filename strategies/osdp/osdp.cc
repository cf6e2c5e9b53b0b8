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
#include "strategies/api/search/plan_search.h"
#include "strategies/osdp/space.h"
#include "strategies/osdp/units.h"

namespace tessera::strategy {
namespace {

using search::Candidate;

// To improve a Plan of a model of one operator, so many are lowered. A large model takes longer to
// lower, and its model of a step is closer.
constexpr double kLowerings = 3e8;
constexpr double kWorthwhile = 0.01;  // a saved Plan holds if no other is faster by more than this
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A search for the fastest Plan at one batch.
class Planner {
 public:
  // `batch` rows in the context; the Plan states them if the user leaves them open.
  Planner(const Request& request, int64_t batch, TesseraContext* context, const ModelInfo& model,
          Host& host)
      : run_{request, batch, context, model, units_, host},
        units_(osdp::UnitsOf(model)),
        plans_(request.memory_limit_bytes(), host, context) {}

  absl::StatusOr<const Candidate*> Find();
  Explanation Explain(const Candidate& best) const;

 private:
  // The numbers of micro-batches that a Plan may have, in ascending order; 0: that of the run.
  std::vector<int64_t> MicroBatchCounts() const;
  // Returns the seconds of the fastest Plan that was found; infinite if none fits.
  absl::StatusOr<double> Search(const osdp::Settings& settings);
  // Searches with several numbers of micro-batches.
  absl::Status SearchCounts(osdp::Settings settings);

  const osdp::Run run_;
  const std::vector<osdp::Unit> units_;
  search::PlanSearch plans_;
  bool searched_ = false;
};

std::vector<int64_t> Planner::MicroBatchCounts() const {
  if (!run_.request.MayDecide(PlanRequest::MICRO_BATCHES)) return {0};
  const int64_t rows = run_.batch / std::max(1, run_.request.ranks());
  std::vector<int64_t> counts = {1};
  for (int64_t count = 2; count <= rows; ++count) {
    if (run_.batch % count == 0 && rows % count == 0) counts.push_back(count);
  }
  return counts;
}

absl::StatusOr<double> Planner::Search(const osdp::Settings& settings) {
  absl::StatusOr<search::Space> space = osdp::MakeSpace(run_, settings, plans_);
  // Other settings may be possible, if the first ones are.
  if (absl::IsInvalidArgument(space.status()) && searched_) return kInfinite;
  RETURN_IF_ERROR(space.status());
  searched_ = true;
  return plans_.Search(*std::move(space));
}

// More micro-batches need less memory and take more time, if the same is sharded and recomputed. So
// the fewest with which a Plan fits come first, and then more of them as long as that is faster.
absl::Status Planner::SearchCounts(osdp::Settings settings) {
  const std::vector<int64_t> counts = MicroBatchCounts();
  std::vector<double> seconds(counts.size(), -1);
  const auto search = [&](size_t i) -> absl::StatusOr<double> {
    if (seconds[i] >= 0) return seconds[i];
    settings.micro_batches = counts[i];
    ASSIGN_OR_RETURN(seconds[i], Search(settings));
    return seconds[i];
  };
  size_t fits = 0;
  ASSIGN_OR_RETURN(double fastest, search(fits));
  for (size_t low = 1, high = counts.size(); fastest == kInfinite && low < high;) {
    const size_t middle = (low + high) / 2;
    ASSIGN_OR_RETURN(const double found, search(middle));
    if (found == kInfinite) low = middle + 1;
    if (found != kInfinite) high = middle;
    fits = low;
  }
  if (fits == counts.size()) return absl::OkStatus();
  ASSIGN_OR_RETURN(fastest, search(fits));
  while (++fits < counts.size() && !run_.host.cancelled()) {
    ASSIGN_OR_RETURN(const double next, search(fits));
    if (next >= fastest) break;
    fastest = next;
  }
  return absl::OkStatus();
}

// Returns 0 if the run decides.
int64_t MicroBatchesOf(const Plan& plan) {
  int64_t count = 0;
  for (const PlanPart& part : plan.stages(0).parts()) count = std::max(count, part.micro_batches());
  return count;
}

absl::StatusOr<const Candidate*> Planner::Find() {
  // Slices only save memory, so they are tried if nothing else fits; and then without gathers
  // ahead.
  const int64_t batch = run_.request.MayDecide(PlanRequest::BATCH) ? run_.batch : 0;
  for (const auto& [slices, prefetches] : {std::pair(false, true), {true, true}, {true, false}}) {
    if (plans_.best() != nullptr || run_.host.cancelled()) break;
    RETURN_IF_ERROR(SearchCounts({.batch = batch, .slices = slices, .prefetches = prefetches}));
  }
  ASSIGN_OR_RETURN(const RunGraphs graphs, run_.host.Graphs(run_.context));
  double operators = 1;
  for (const GraphProto& graph : graphs.graphs()) {
    if (graph.name() == run_.model.graph) operators = graph.ops_size();
  }
  if (plans_.best() != nullptr)
    operators *= std::max<int64_t>(1, MicroBatchesOf(plans_.best()->plan));
  return plans_.Finish(static_cast<int>(std::clamp(kLowerings / operators / operators, 3., 200.)));
}

Explanation Planner::Explain(const Candidate& best) const {
  Explanation explanation = plans_.Explain(best);
  const double computation = std::max(best.cost.computation_seconds(), 1e-30);
  explanation.add_notes(absl::StrFormat(
      "decided by prices of which %.0f%% of computation was measured, %.0f%% interpolated, and the "
      "rest is by the rates of the cluster",
      100 * best.cost.measured_seconds() / computation,
      100 * best.cost.interpolated_seconds() / computation));
  return explanation;
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

// Doubles the batch as long as more rows per second are trained, and then tries batches beside the
// best one.
absl::StatusOr<Decided> DecideWithBatch(const Request& request, Host& host) {
  Decided best;
  int tried = 0;
  const auto attempt = [&](int64_t batch) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(TesseraContext* const context, host.OpenContext(batch, 0));
    absl::StatusOr<Decided> found = Decide(request, batch, context, host);
    host.CloseContext(context);
    RETURN_IF_ERROR(found.status());
    ++tried;
    const bool better =
        best.batch == 0 || found->RowsPerSecond() > (1 + kWorthwhile) * best.RowsPerSecond();
    if (better) best = *std::move(found);
    return better;
  };
  const auto try_more = [&](int64_t batch) -> absl::StatusOr<bool> {
    if (batch % request.ranks() != 0 || host.cancelled()) return false;
    const absl::StatusOr<bool> better = attempt(batch);
    if (absl::IsResourceExhausted(better.status())) return false;
    return better;
  };
  RETURN_IF_ERROR(attempt(request.ranks()).status());
  for (bool better = true; better;) {
    ASSIGN_OR_RETURN(better, try_more(2 * best.batch));
  }
  const int64_t doubled = best.batch;
  for (const int64_t batch : {doubled / 4 * 3, doubled / 2 * 3}) {
    RETURN_IF_ERROR(try_more(batch).status());
  }
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
