#include "tools/compare/compared_strategy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/cost/step_cost.h"
#include "core/cost/step_cost_sums.h"
#include "core/status/status_macros.h"
#include "core/tensor/collective.h"
#include "core/text/human_units.h"
#include "core/train/programs.h"
#include "tools/report/view_of_run.h"
#include "tools/strategy_entry/strategy_entry.h"
#include "tools/train/setup/memory_checks.h"
#include "tools/train/setup/prepare.h"

namespace tessera {
namespace {

// How often computation and communication run alone in each round: enough for a median, whose
// spread is small.
constexpr int64_t kMostAlone = 3;

// Adds `sign` times the counts to the calls and bytes of `sums`.
void AddCounts(const std::vector<CollectiveCount>& counts, int sign, StepCost* sums) {
  for (const CollectiveCount& count : counts) {
    StepCost::Collective& sum = *sums->mutable_collectives(
        FindOrAddCollective(CollectiveOperationName(count.operation), count.mesh_axes, sums));
    sum.set_calls(sum.calls() + sign * count.calls);
    sum.set_bytes(sum.bytes() + sign * count.bytes_sent);
  }
}

// Removes collectives that only the initialisation has called, and no step.
void RemoveUncalled(StepCost* cost) {
  StepCost called = *cost;
  called.clear_collectives();
  for (const StepCost::Collective& each : cost->collectives()) {
    if (each.calls() > 0) *called.add_collectives() = each;
  }
  *cost = called;
}

// Returns the number of micro-batches of a training step.
int64_t MicroBatchesOf(const Plan& plan) {
  for (const PlanPart& part : plan.stages(0).parts()) {
    if (part.graph() == kTrain) return std::max<int64_t>(1, part.micro_batches());
  }
  return 1;
}

// Returns whether the ranks can go on after an error: all of them have it.
bool CanGoOn(const absl::Status& error, const Ranks& ranks) {
  return ranks.size() == 1 || IsAgreed(error);
}

}  // namespace

ComparedStrategy::ComparedStrategy(std::string label, CommandLine line, ConfiguredRun configured,
                                   std::vector<std::string> notes)
    : line_(std::move(line)),
      configured_(std::move(configured)),
      notes_(std::move(notes)),
      keeper_(configured_) {
  result_.label = std::move(label);
  result_.batch = configured_.config.batch();
  result_.micro_batches = configured_.config.micro_batches();
}

void ComparedStrategy::LimitMemory(int64_t bytes) {
  const std::string written = absl::StrCat(bytes);
  line_.settings.push_back({"--memory_limit", "memory_limit", written});
  configured_.config.set_memory_limit(written);
  configured_.memory_bound = {bytes, written};
}

void ComparedStrategy::Exclude(Outcome outcome, const std::string& remark,
                               const std::string& fault) {
  result_.outcome = outcome;
  result_.remark = remark;
  result_.fault = fault;
}

absl::Status ComparedStrategy::ExcludeFor(const absl::Status& error) {
  if (error.ok()) return absl::OkStatus();
  if (!CanGoOn(error, *configured_.ranks.ranks)) return NamedStatus(label(), error);
  if (!absl::IsResourceExhausted(error)) {
    Exclude(Outcome::kFailed, "failed", absl::StrCat(label(), " failed: ", error.message()));
    return absl::OkStatus();
  }
  const std::string size = arena_bytes_ > 0 ? absl::StrCat(": ", FormatBytes(arena_bytes_)) : "";
  Exclude(Outcome::kDoesNotFit, absl::StrCat("does not fit", size),
          absl::StrCat(label(), " does not fit: ", error.message()));
  return absl::OkStatus();
}

absl::Status ComparedStrategy::CompileRun(bool with_view) {
  ASSIGN_OR_RETURN(PreparedRun prepared, PrepareRun(line_, configured_, &notes_));
  arena_bytes_ = prepared.compiled.arena_bytes();
  state_bytes_ = prepared.compiled.state_bytes;
  result_.batch = configured_.config.batch();  // with --batch=search, the Plan's
  result_.micro_batches = MicroBatchesOf(prepared.compiled.plan);
  result_.memory_limit_bytes = configured_.memory_bound.bytes;
  result_.estimated = prepared.estimated;
  result_.explanation = std::move(prepared.explanation);
  if (with_view && configured_.ranks.ranks->is_first()) {
    // The ranks have recorded the same Graph before, so it cannot fail on this one alone.
    ASSIGN_OR_RETURN(result_.view, ViewOfRun(configured_, prepared.compiled));
  }
  RETURN_IF_ERROR(CheckMemoryLimit(line_, configured_, prepared.compiled));
  ASSIGN_OR_RETURN(check_, TrainingCheck::Compile(line_, &configured_, prepared));
  rounding_ = check_->rounding();
  compiled_ = std::move(prepared.compiled);
  return absl::OkStatus();
}

absl::Status ComparedStrategy::Compile(bool with_view) { return ExcludeFor(CompileRun(with_view)); }

absl::StatusOr<CheckedTraining> ComparedStrategy::Check(StopRequest& stop) {
  absl::StatusOr<CheckedTraining> training = check_->Run(label(), stop);
  check_.reset();
  if (!training.ok()) return NamedStatus(label(), training.status());
  return training;
}

absl::Status ComparedStrategy::Begin() {
  step_ = *compiled_.FindProgram(kTrain);
  const TimedRun run = {configured_.config, configured_.model.get(), configured_.dataset.get()};
  absl::StatusOr<std::unique_ptr<StepTimer>> timer = StepTimer::Create(
      run, std::move(compiled_), configured_.backend.get(), configured_.ranks.ranks);
  RETURN_IF_ERROR(NamedStatus(label(), timer.status()));
  timer_ = *std::move(timer);
  const absl::StatusOr<StepResult> first = timer_->RecordStep();
  RETURN_IF_ERROR(NamedStatus(label(), first.status()));
  return NamedStatus(label(), RecordResult(*first));
}

// Records a step. All ranks exclude the strategy if it is not finite on one of them.
absl::Status ComparedStrategy::RecordResult(const StepResult& step) {
  int64_t fails = step.finite || step.loss_scale > 0 ? 0 : 1;
  RETURN_IF_ERROR(configured_.ranks.ranks->Max(absl::MakeSpan(&fails, 1)));
  result_.losses.push_back(step.loss);
  result_.grad_norms.push_back(step.grad_norm);
  result_.last_step = step.step;
  if (fails == 0) return absl::OkStatus();
  Exclude(Outcome::kFailed, "failed",
          absl::StrCat(label(), " failed: the loss or a gradient of step ", step.step,
                       " is not finite: choose a smaller --lr"));
  return absl::OkStatus();
}

absl::Status ComparedStrategy::RunSteps(int64_t steps, StopRequest& stop) {
  AddCounts(timer_->Counts(), -1, &sums_);
  for (int64_t i = 0; i < steps && is_compared() && stop.signal() == 0; ++i) {
    StepResult step;
    ASSIGN_OR_RETURN(const double seconds, timer_->TimeStep(&step));
    result_.step_seconds.push_back(seconds);
    RETURN_IF_ERROR(RecordResult(step));
    RETURN_IF_ERROR(stop.Agree());
  }
  AddCounts(timer_->Counts(), 1, &sums_);
  return absl::OkStatus();
}

absl::Status ComparedStrategy::RunComputationAndCommunicationAlone(int64_t steps,
                                                                   StopRequest& stop) {
  RETURN_IF_ERROR(timer_->SetStateAside());
  for (int64_t i = 0; i < steps && is_compared() && stop.signal() == 0; ++i) {
    ASSIGN_OR_RETURN(const double computation, timer_->TimeComputation());
    ASSIGN_OR_RETURN(const double communication, timer_->TimeCommunication());
    result_.computation_seconds.push_back(computation);
    result_.communication_seconds.push_back(communication);
    RETURN_IF_ERROR(stop.Agree());
  }
  const PricedCluster& priced = configured_.priced;
  if (priced.site.size() > 0 && stop.signal() == 0) {
    ASSIGN_OR_RETURN(prices_, timer_->TakePrices(priced.site, priced.cluster.network()));
  }
  return timer_->PutStateBack();
}

absl::Status ComparedStrategy::Run(int64_t steps, StopRequest& stop) {
  RETURN_IF_ERROR(NamedStatus(label(), RunSteps(steps, stop)));
  RETURN_IF_ERROR(NamedStatus(label(), RunComputationAndCommunicationAlone(
                                           std::clamp<int64_t>(steps, 1, kMostAlone), stop)));
  if (stop.signal() != 0 || !is_compared()) return absl::OkStatus();
  rounds_.push_back({result_.step_seconds.size(), result_.computation_seconds.size(),
                     result_.losses.size(), result_.last_step, sums_, std::move(prices_)});
  result_.outcome = steps > 0 ? Outcome::kRan : Outcome::kPriced;
  return absl::OkStatus();
}

void ComparedStrategy::KeepRounds(size_t rounds) {
  rounds_.resize(std::min(rounds, rounds_.size()));
  if (rounds_.empty()) {
    result_.outcome = Outcome::kNotRun;
    result_.remark = "not run";
    return;
  }
  const Round& last = rounds_.back();
  result_.step_seconds.resize(last.steps);
  result_.computation_seconds.resize(last.alone);
  result_.communication_seconds.resize(last.alone);
  result_.losses.resize(last.losses);
  result_.grad_norms.resize(last.losses);
  result_.last_step = last.last_step;
  sums_ = last.sums;
}

double ComparedStrategy::median_seconds() const {
  if (!result_.step_seconds.empty()) return Quantile(result_.step_seconds, 0.5);
  return CostByPrices(rounds_.back().prices).step_seconds();
}

MeasuredPrices ComparedStrategy::PricesOfOthers(size_t left_out) const {
  MeasuredPrices prices;
  for (size_t round = 0; round < rounds_.size(); ++round) {
    if (round != left_out || rounds_.size() == 1) prices.AddAll(rounds_[round].prices);
  }
  return prices;
}

StepCost ComparedStrategy::CostByPrices(const MeasuredPrices& prices) const {
  StepCost cost = EstimateStep(step_, configured_.priced.cluster, configured_.priced.site, &prices);
  cost.set_peak_bytes(arena_bytes_);
  return cost;
}

void ComparedStrategy::Calibrate(StrategyResult* result) const {
  if (configured_.priced.site.size() == 0) return;
  result->calibrated = CostByPrices(PricesOfOthers(rounds_.size()));
  for (size_t round = 0; round < rounds_.size(); ++round) {
    const bool trained = !result_.step_seconds.empty();
    result->calibrated_rounds.push_back(
        CostByPrices(trained ? PricesOfOthers(round) : rounds_[round].prices).step_seconds());
  }
}

LossSeries ComparedStrategy::Series() const {
  return {label(), rounding_, result_.losses, result_.grad_norms};
}

absl::StatusOr<StrategyResult> ComparedStrategy::Result() {
  StrategyResult result = result_;
  if (rounds_.empty()) return result;
  Calibrate(&result);
  for (const Round& round : rounds_) {
    MeasuredPrices prices = round.prices;
    // Times within one host are not those of a network.
    if (configured_.ranks.on_loopback) prices.collectives = CollectiveCurves();
    keeper_.Add(prices);
  }
  RETURN_IF_ERROR(keeper_.Keep());
  if (result_.step_seconds.empty()) return result;
  ASSIGN_OR_RETURN(const std::vector<std::string> all,
                   configured_.ranks.ranks->AllGather(sums_.SerializeAsString()));
  std::vector<StepCost> sums(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (sums[rank].ParseFromString(all[rank])) continue;
    return absl::InternalError(absl::StrCat("rank ", rank, " has sent a malformed cost"));
  }
  const StepCost merged = MergeRanks(sums);
  const int64_t steps = static_cast<int64_t>(result_.step_seconds.size());
  result.counted = PerStep(merged, steps);
  result.counted.set_peak_bytes(arena_bytes_);
  RemoveUncalled(&result.counted);
  if (configured_.priced.site.size() > 0) {
    result.same_collectives =
        NamedStatus(label(), CompareCollectives(result.estimated, merged, steps));
  }
  return result;
}

}  // namespace tessera
