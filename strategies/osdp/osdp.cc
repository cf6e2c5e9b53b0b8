// Optimal sharded data parallel (arXiv 2209.13258): each block of a model is replicated or sharded,
// in one of several ways, and recomputed or not, so that a step takes the least time within the
// memory limit.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "strategies/api/kit.h"
#include "strategies/api/search/search.h"
#include "strategies/osdp/lowered.h"
#include "strategies/osdp/step_model.h"
#include "strategies/osdp/units.h"

namespace tessera::strategy {
namespace {

using osdp::Candidate;
using osdp::Candidates;
using osdp::Mode;
using osdp::Settings;
using osdp::StepModel;
using osdp::Storage;
using osdp::Unit;

constexpr double kGap = 1e-3;  // of the search
constexpr int kCounts = 3;     // of micro-batches that are tried beside the first
constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int kProposals = 12;        // of one search, at most
constexpr double kLowerings = 3e8;    // to improve a Plan of a model of one operator; see Improve
constexpr double kWorthwhile = 0.01;  // a saved Plan holds if no other is faster by more than this

// A search for the fastest Plan.
class Planner {
 public:
  Planner(const Request& request, const ModelInfo& model, Host& host)
      : request_(request),
        model_(model),
        host_(host),
        units_(osdp::UnitsOf(model)),
        candidates_(model, units_, host),
        limit_(request.memory_limit_bytes()) {}

  // Returns the fastest candidate that meets the limit; ResourceExhausted if there is none.
  absl::StatusOr<const Candidate*> Find();
  Explanation Explain(const Candidate& best) const;
  std::string Summary(const Candidate& best) const;

 private:
  // Lowers Plans until some fit within the limit, and are fast.
  absl::Status SearchWithin();
  // Searches for smaller Plans than those that are known, until there are none, so that the limit
  // that is named is one that is met, and no byte less is.
  absl::Status FindSmallest();
  // The numbers of micro-batches that a Plan may have; 0: that of the run.
  std::vector<int64_t> MicroBatchCounts() const;
  // Makes a model of the step with these settings, and proposes Plans by it.
  absl::Status Search(const Settings& settings, bool slices);
  // `excess` is by how much a Plan needs more memory than the model says, about.
  absl::Status Propose(StepModel& step, int64_t excess);
  // Lowers the Plans that need the least memory by the model, and proposes others by what they
  // need.
  absl::Status ProposeSmallest(StepModel& step);
  // Returns the seconds of the step in so many micro-batches by a model that was made for others;
  // infinite if none fits.
  double Predict(const StepModel& step, int64_t count) const;
  // Searches with other numbers of micro-batches, if one of them promises to be faster.
  absl::Status TryMicroBatches(bool slices);
  // Whether a choice exceeds the limit by the model, its time, and the choice.
  using Change = std::tuple<bool, int64_t, std::vector<int>>;
  // Returns the choices that differ in one unit, or in two, in ascending order.
  std::vector<Change> ChangesOf(const StepModel& step, std::vector<int> choices, bool of_two) const;
  absl::Status Improve();
  // Reports how far the search is, and the best Plan so far.
  void Report(double fraction) const;

  const Request& request_;
  const ModelInfo& model_;
  Host& host_;
  const std::vector<Unit> units_;
  Candidates candidates_;
  std::vector<StepModel> models_;  // by settings that were tried
  int operators_ = 0;
  int64_t limit_ = 0;  // bytes of a rank; 0: none
};

std::vector<int64_t> Planner::MicroBatchCounts() const {
  if (!request_.MayDecide(PlanRequest::MICRO_BATCHES)) return {0};
  const int64_t rows = request_.batch() / std::max(1, request_.ranks());
  std::vector<int64_t> counts = {1};
  for (int64_t count = 2; count <= rows; ++count) {
    if (request_.batch() % count == 0 && rows % count == 0) counts.push_back(count);
  }
  return counts;
}

double Planner::Predict(const StepModel& step, int64_t count) const {
  search::Problem problem = step.ScaledTo(count);
  if (limit_ == 0) problem.limit_bytes = std::numeric_limits<int64_t>::max() / 4;
  const search::Solution solution = search::Solve(problem, {.gap = 10 * kGap});
  if (!solution.found()) return kInfinite;
  return 1e-12 * static_cast<double>(solution.outcome.step_ps) * static_cast<double>(count);
}

absl::Status Planner::TryMicroBatches(bool slices) {
  std::vector<int64_t> untried = MicroBatchCounts();
  untried.erase(untried.begin());
  for (int i = 0; i < kCounts && !untried.empty() && !host_.cancelled(); ++i) {
    // Of those that do not fit by the last model, the most micro-batches need the least memory.
    std::pair<double, int64_t> next = {kInfinite, 0};
    for (const int64_t count : untried) {
      next = std::min(next, {Predict(models_.back(), count), -count});
    }
    const auto [seconds, negated] = next;
    const Candidate* const best = candidates_.Fastest(limit_);
    if (best != nullptr && seconds >= best->cost.step_seconds()) break;
    RETURN_IF_ERROR(Search({.micro_batches = -negated}, slices));
    Report(0.4 + 0.1 * (i + 1));
    untried.erase(std::find(untried.begin(), untried.end(), -negated));
  }
  return absl::OkStatus();
}

absl::StatusOr<const Candidate*> Planner::Find() {
  ASSIGN_OR_RETURN(const RunGraphs graphs, host_.Graphs());
  for (const GraphProto& graph : graphs.graphs()) {
    if (graph.name() == model_.graph) operators_ = graph.ops_size();
  }
  RETURN_IF_ERROR(SearchWithin());
  if (candidates_.Fastest(limit_) == nullptr) RETURN_IF_ERROR(FindSmallest());
  RETURN_IF_ERROR(Improve());
  if (const Candidate* const best = candidates_.Fastest(limit_); best != nullptr) return best;
  return absl::ResourceExhaustedError(absl::StrCat(
      "no choice of what is sharded, sliced and recomputed fits into ", limit_,
      " bytes; the smallest limit that was found is ", candidates_.Smallest()->cost.peak_bytes()));
}

absl::Status Planner::FindSmallest() {
  const int64_t requested = limit_;
  absl::Status status;
  for (bool smaller = true; smaller && status.ok() && !host_.cancelled();) {
    limit_ = candidates_.Smallest()->cost.peak_bytes() - 1;
    status = SearchWithin();
    smaller = candidates_.Fastest(limit_) != nullptr;
  }
  limit_ = requested;
  return status;
}

absl::Status Planner::SearchWithin() {
  const int64_t first = MicroBatchCounts().front();
  // Slices only save memory, so they are tried if nothing else fits; and then without gathers
  // ahead.
  for (const auto& [slices, prefetches] : {std::pair(false, true), {true, true}, {true, false}}) {
    if (candidates_.Fastest(limit_) != nullptr || host_.cancelled()) break;
    RETURN_IF_ERROR(Search({.micro_batches = first, .prefetches = prefetches}, slices));
    Report(0.4);
    if (prefetches) RETURN_IF_ERROR(TryMicroBatches(slices));
  }
  return absl::OkStatus();
}

absl::Status Planner::Search(const Settings& settings, bool slices) {
  absl::StatusOr<StepModel> step = osdp::MakeStepModel(
      request_, model_, units_, settings,
      {.recomputed = request_.MayDecide(PlanRequest::RECOMPUTE), .slices = slices}, host_,
      candidates_);
  // Other settings may be possible, if the first ones are.
  if (absl::IsInvalidArgument(step.status()) && !models_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(step.status());
  RETURN_IF_ERROR(Propose(*step, 0));
  if (candidates_.Fastest(limit_) == nullptr) RETURN_IF_ERROR(ProposeSmallest(*step));
  models_.push_back(*std::move(step));
  return absl::OkStatus();
}

absl::Status Planner::ProposeSmallest(StepModel& step) {
  for (const Storage storage : {Storage::kPieces, Storage::kSlices}) {
    const bool recompute = request_.MayDecide(PlanRequest::RECOMPUTE);
    const std::vector<Mode> modes = osdp::ModesOfCorner(units_, {storage, recompute});
    const std::vector<int> choices = step.ChoicesOf(modes);
    if (step.ModesOf(choices) != modes) continue;  // not of this model's alternatives
    const auto lowered = candidates_.Lower(modes, step.settings);
    if (absl::IsInvalidArgument(lowered.status())) continue;
    RETURN_IF_ERROR(lowered.status());
    const int64_t peak = (*lowered)->cost.peak_bytes();
    RETURN_IF_ERROR(Propose(step, peak - search::Evaluate(step.problem, choices).peak_bytes));
    if (peak <= limit_) break;
  }
  return absl::OkStatus();
}

// Corrects the model's limit by what lowering finds, until its Plan fits and leaves little.
absl::Status Planner::Propose(StepModel& step, int64_t excess) {
  for (int i = 0; i < kProposals && !host_.cancelled(); ++i) {
    step.problem.limit_bytes =
        limit_ == 0 ? std::numeric_limits<int64_t>::max() / 4 : limit_ - excess;
    const search::Solution solution =
        search::Solve(step.problem, {.gap = kGap, .stop = [this] { return host_.cancelled(); }});
    const std::vector<int>& choices = solution.found() ? solution.choices : solution.least_choices;
    if (choices.empty()) break;
    const absl::StatusOr<const Candidate*> lowered =
        candidates_.Lower(step.ModesOf(choices), step.settings);
    if (absl::IsInvalidArgument(lowered.status())) break;
    RETURN_IF_ERROR(lowered.status());
    const int64_t peak = (*lowered)->cost.peak_bytes();
    const int64_t found = peak - search::Evaluate(step.problem, choices).peak_bytes;
    if (limit_ == 0 || found == excess) break;
    if (peak <= limit_ && limit_ - peak < limit_ / 100) break;
    excess = found;
  }
  return absl::OkStatus();
}

std::vector<Planner::Change> Planner::ChangesOf(const StepModel& step, std::vector<int> choices,
                                                bool of_two) const {
  std::vector<Change> changes;
  const auto add = [&] {
    const search::Outcome outcome = search::Evaluate(step.problem, choices);
    const bool exceeds = limit_ > 0 && outcome.peak_bytes > step.problem.limit_bytes;
    changes.emplace_back(exceeds, outcome.step_ps, choices);
  };
  const int units = static_cast<int>(step.modes.size()) - 1;
  // Calls `then` with each other choice of a unit.
  const auto for_each_other = [&](int unit, const auto& then) {
    const int chosen = choices[unit];
    for (int k = 0; k < static_cast<int>(step.modes[unit].size()); ++k) {
      choices[unit] = k;
      if (k != chosen) then();
    }
    choices[unit] = chosen;
  };
  for (int i = 0; i < units; ++i) {
    for_each_other(i, [&] {
      if (!of_two) return add();
      for (int j = i + 1; j < units; ++j) for_each_other(j, add);
    });
  }
  std::sort(changes.begin(), changes.end());
  return changes;
}

// Lowers what differs from the fastest Plan in one unit, or else in two, as long as that is faster:
// first what the model says is fastest; what exceeds the limit by the model comes last.
absl::Status Planner::Improve() {
  // A large model takes longer to lower, and its model of a step is closer.
  const double operators = std::max(1, operators_);
  const int most = candidates_.size() +
                   static_cast<int>(std::clamp(kLowerings / operators / operators, 6., 200.));
  const Candidate* best = candidates_.Fastest(limit_);
  for (bool of_two = false; best != nullptr;) {
    const auto of_settings = [&](const StepModel& step) { return step.settings == best->settings; };
    const auto step = std::find_if(models_.rbegin(), models_.rend(), of_settings);
    if (step == models_.rend()) break;
    for (const auto& [exceeds, time, choices] :
         ChangesOf(*step, step->ChoicesOf(best->modes), of_two)) {
      if (candidates_.size() >= most || host_.cancelled()) return absl::OkStatus();
      const auto lowered = candidates_.Lower(step->ModesOf(choices), best->settings);
      if (!absl::IsInvalidArgument(lowered.status())) RETURN_IF_ERROR(lowered.status());
      if (of_two && candidates_.Fastest(limit_) != best) break;
    }
    const Candidate* const now = candidates_.Fastest(limit_);
    if (now == best && of_two) break;
    of_two = now == best;
    best = now;
  }
  return absl::OkStatus();
}

void Planner::Report(double fraction) const {
  Progress progress;
  progress.set_fraction(fraction);
  progress.set_message(absl::StrCat(candidates_.size(), " Plans are lowered"));
  if (const Candidate* const best = candidates_.Fastest(limit_); best != nullptr) {
    *progress.mutable_best() = best->plan;
  }
  host_.Report(progress);
}

std::string Planner::Summary(const Candidate& best) const {
  absl::btree_map<std::string, int> counts;
  for (const Mode& mode : best.modes) ++counts[osdp::NameOf(mode)];
  const std::string chosen = absl::StrJoin(counts, "; ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.second, " ", entry.first);
  });
  return absl::StrCat("of ", units_.size(), " units of parameters: ", chosen,
                      best.settings.micro_batches > 1
                          ? absl::StrCat("; ", best.settings.micro_batches, " micro-batches")
                          : "",
                      "; ", candidates_.size(), " Plans were lowered");
}

Explanation Planner::Explain(const Candidate& best) const {
  Explanation explanation;
  const StepCost& cost = best.cost;
  explanation.set_least_limit_bytes(candidates_.Smallest()->cost.peak_bytes());
  explanation.add_notes(Summary(best));
  const double computation = cost.computation_seconds();
  explanation.add_notes(absl::StrFormat(
      "decided by prices of which %.0f%% of computation was measured, %.0f%% interpolated, and the "
      "rest is by the rates of the cluster",
      100 * cost.measured_seconds() / std::max(computation, 1e-30),
      100 * cost.interpolated_seconds() / std::max(computation, 1e-30)));
  for (const StepModel& step : models_) {
    if (step.settings != best.settings) continue;
    const std::vector<int> chosen = step.ChoicesOf(best.modes);
    const search::Outcome now = search::Evaluate(step.problem, chosen);
    for (size_t i = 0; i < units_.size(); ++i) {
      Explanation::Decision& decision = *explanation.add_decisions();
      decision.set_subject(units_[i].name);
      decision.set_choice(osdp::NameOf(best.modes[i]));
      for (size_t k = 0; k < step.modes[i].size(); ++k) {
        if (step.modes[i][k] == best.modes[i]) continue;
        std::vector<int> other = chosen;
        other[i] = static_cast<int>(k);
        const search::Outcome outcome = search::Evaluate(step.problem, other);
        Explanation::Decision::Alternative& alternative = *decision.add_alternatives();
        alternative.set_choice(osdp::NameOf(step.modes[i][k]));
        // The model's differences are closer than its sums.
        alternative.set_step_seconds(cost.step_seconds() +
                                     static_cast<double>(outcome.step_ps - now.step_ps) * 1e-12);
        alternative.set_peak_bytes(cost.peak_bytes() + outcome.peak_bytes - now.peak_bytes);
      }
    }
  }
  return explanation;
}

class Osdp : public Strategy {
 public:
  absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
    ASSIGN_OR_RETURN(const ModelInfo model, host.ModelWithSplits());
    Planner planner(request, model, host);
    ASSIGN_OR_RETURN(const Candidate* const best, planner.Find());
    host.Log(planner.Summary(*best));
    host.Explain(planner.Explain(*best));
    return best->plan;
  }

  absl::StatusOr<std::string> Check(const Request& request, const Plan& plan, Host& host) override {
    ASSIGN_OR_RETURN(const StepCost saved, host.Lower(plan));
    ASSIGN_OR_RETURN(const ModelInfo model, host.ModelWithSplits());
    Planner planner(request, model, host);
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
