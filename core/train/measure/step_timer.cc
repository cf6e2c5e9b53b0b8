#include "core/train/measure/step_timer.h"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/types/span.h"
#include "core/cost/cluster_prices.h"
#include "core/plan/complete.h"
#include "core/status/status_macros.h"
#include "core/train/measure/measured_steps.h"
#include "core/train/ranks/rank_engine.h"

namespace tessera {

absl::StatusOr<std::unique_ptr<StepTimer>> StepTimer::Create(const TimedRun& run,
                                                             CompiledRun compiled, Backend* backend,
                                                             Ranks* ranks) {
  std::unique_ptr<StepTimer> timer(new StepTimer(run, ranks));
  if (ranks->size() > 1) {
    ASSIGN_OR_RETURN(const Mesh mesh, MeshOfPlan(compiled.plan, ranks->size()));
    ASSIGN_OR_RETURN(Collectives* const actual, ranks->CollectivesOn(mesh));
    timer->collectives_ = std::make_unique<SwitchableCollectives>(actual);
    timer->collective_timer_ = std::make_unique<CollectiveTimer>(timer->collectives_.get(), ranks,
                                                                 backend->processor().threads);
  }
  ASSIGN_OR_RETURN(timer->engine_,
                   MakeRankEngine(std::move(compiled), backend, *ranks, timer->collectives_.get()));
  timer->trainer_ = std::make_unique<Trainer>(timer->run_.config, run.model, timer->engine_.get(),
                                              run.dataset, ranks);
  RETURN_IF_ERROR(timer->trainer_->Initialise());
  return timer;
}

std::vector<CollectiveCount> StepTimer::Counts() const {
  return collectives_ == nullptr ? std::vector<CollectiveCount>() : collectives_->Counts();
}

absl::StatusOr<double> StepTimer::TimeOnAllRanks(const std::function<absl::Status()>& function,
                                                 double* mine) {
  using Clock = std::chrono::steady_clock;
  const auto excluded = [this] { return collectives_ ? collectives_->excluded_nanoseconds() : 0; };
  RETURN_IF_ERROR(ranks_.Barrier());
  const int64_t excluded_before = excluded();
  const Clock::time_point begin = Clock::now();
  RETURN_IF_ERROR(function());
  int64_t nanoseconds = (Clock::now() - begin) / std::chrono::nanoseconds(1);
  nanoseconds -= excluded() - excluded_before;
  if (mine != nullptr) *mine = 1e-9 * static_cast<double>(nanoseconds);
  RETURN_IF_ERROR(ranks_.Max(absl::MakeSpan(&nanoseconds, 1)));
  return 1e-9 * static_cast<double>(nanoseconds);
}

absl::StatusOr<double> StepTimer::TimeStep(StepResult* result) {
  return TimeOnAllRanks([&]() -> absl::Status {
    ASSIGN_OR_RETURN(const StepResult step, trainer_->Step());
    if (result != nullptr) *result = step;
    return absl::OkStatus();
  });
}

absl::StatusOr<StepResult> StepTimer::RecordStep() {
  if (collectives_ != nullptr) collectives_->set_recording(true);
  absl::StatusOr<StepResult> result = trainer_->Step();
  if (collectives_ != nullptr) collectives_->set_recording(false);
  return result;
}

absl::StatusOr<double> StepTimer::TimeComputation() {
  if (collectives_ != nullptr) collectives_->set_excluded(true);
  double mine = 0;
  absl::StatusOr<double> seconds = TimeOnAllRanks(
      [&]() -> absl::Status {
        // A step may write over its inputs.
        RETURN_IF_ERROR(trainer_->SetTrainInputs(*engine_));
        return engine_->executor(kTrain).RunTimed();
      },
      &mine);
  if (collectives_ != nullptr) collectives_->set_excluded(false);
  RETURN_IF_ERROR(seconds.status());
  if (collective_timer_ != nullptr) collective_timer_->AddInPlace(collectives_->excluded_calls());
  const Executor& executor = engine_->executor(kTrain);
  computations_.emplace_back(ToTimeSpans(executor.times(), executor.step_begin_ns()), mine);
  return seconds;
}

absl::Status StepTimer::SetStateAside() {
  state_.clear();
  for (const StateInfo& state : engine_->states()) {
    state_.emplace_back(NumBytes(state.type));
    RETURN_IF_ERROR(engine_->ReadState(state, 0, absl::MakeSpan(state_.back())));
  }
  return absl::OkStatus();
}

absl::Status StepTimer::PutStateBack() {
  for (size_t i = 0; i < state_.size(); ++i) {
    RETURN_IF_ERROR(engine_->WriteState(engine_->states()[i], 0, state_[i]));
  }
  state_.clear();
  return absl::OkStatus();
}

absl::StatusOr<double> StepTimer::TimeCommunication() {
  if (collectives_ == nullptr) return 0.0;
  return TimeOnAllRanks([&] { return collective_timer_->RunAll(); });
}

absl::StatusOr<KernelPrices> StepTimer::MeanOfRanks(const KernelPrices& mine) {
  std::vector<double> values;
  for (const auto& [work, measured] : mine.works()) values.push_back(measured.Median());
  const absl::string_view bytes(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(double));
  ASSIGN_OR_RETURN(const std::vector<std::string> all, ranks_.AllGather(bytes));
  std::vector<double> mean(values.size(), 0);
  for (const std::string& of_rank : all) {
    // A rank that holds nothing of a value runs fewer kernels.
    if (of_rank.size() != bytes.size()) return mine;
    std::memcpy(values.data(), of_rank.data(), of_rank.size());
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += values[i] / static_cast<double>(all.size());
  }
  KernelPrices prices;
  size_t i = 0;
  for (auto [work, measured] : mine.works()) {
    measured.seconds = {mean[i++]};
    prices.Set(work, std::move(measured));
  }
  return prices;
}

absl::StatusOr<MeasuredPrices> StepTimer::TakePrices(const GroupSite& job,
                                                     const std::string& network) {
  const int ranks_of_host = RanksOfFullestHost(job);
  MeasuredPrices prices;
  for (const auto& [times, seconds] : computations_) {
    KernelPrices mine;
    mine.AddComputation(program(), times, seconds, ranks_of_host);
    ASSIGN_OR_RETURN(const KernelPrices mean, MeanOfRanks(mine));
    prices.kernels.AddAll(mean);
  }
  computations_.clear();
  if (collectives_ == nullptr) return prices;
  RETURN_IF_ERROR(collective_timer_->TimeBeside());
  ASSIGN_OR_RETURN(prices.collectives,
                   collective_timer_->TakeCurves(program().mesh, job,
                                                 {ranks_of_host, program().threads, network}));
  return prices;
}

}  // namespace tessera
