// A strategy that is compared, on one rank.
#ifndef TESSERA_TOOLS_COMPARE_COMPARED_STRATEGY_H_
#define TESSERA_TOOLS_COMPARE_COMPARED_STRATEGY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/cost/prices/measured_prices.h"
#include "core/program/program.h"
#include "core/train/measure/step_timer.h"
#include "tools/compare/comparison.h"
#include "tools/compare/same_training.h"
#include "tools/compare/training_check.h"
#include "tools/train/flags/flags.h"
#include "tools/train/price_keeper.h"
#include "tools/train/rank/stop_request.h"
#include "tools/train/setup/configure.h"

namespace tessera {

// Every rank has one for each strategy, and calls the same methods in the same order. Errors name
// the strategy; after one, the ranks cannot go on. Not thread-safe.
class ComparedStrategy {
 public:
  // `line` is the command line of a training run by this strategy, which it has configured, with
  // `notes` for the user.
  ComparedStrategy(std::string label, CommandLine line, ConfiguredRun configured,
                   std::vector<std::string> notes);

  const std::string& label() const { return result_.label; }
  int64_t batch() const { return result_.batch; }
  const ConfiguredRun& configured() const { return configured_; }
  // Adds a note for the user on the run, and returns those so far.
  void AddNote(const std::string& note) { notes_.push_back(note); }
  const std::vector<std::string>& notes() const { return notes_; }
  // This rank's results so far.
  const StrategyResult& result() const { return result_; }
  // Returns whether it is still compared: it has no fault so far.
  bool is_compared() const { return result_.fault.empty(); }
  // From now on it is not compared. `fault` is one sentence without its end that names the
  // strategy.
  void Exclude(Outcome outcome, const std::string& remark, const std::string& fault);

  // Gives a rank a memory limit of so many bytes. Before Compile.
  void LimitMemory(int64_t bytes);

  // Collective. Plans, and compiles the run and its check. Excludes the strategy if that fails, or
  // if it exceeds the memory limit. If `with_view`, rank 0's result gets a view for a report.
  absl::Status Compile(bool with_view);
  // Return the bytes of a rank's arenas in the check and in the timed rounds, and of its state, of
  // which Run temporarily keeps a copy. After Compile.
  int64_t check_bytes() const { return check_->arena_bytes(); }
  int64_t arena_bytes() const { return arena_bytes_; }
  int64_t state_bytes() const { return state_bytes_; }

  // Collective. Returns the training of the check, whose memory is freed. Call once.
  absl::StatusOr<CheckedTraining> Check(StopRequest& stop);

  // Collective. Allocates the memory, initialises the state, and runs the first step, which is not
  // timed.
  absl::Status Begin();
  // Collective. Runs a round: timed steps (0: none), and then the computation and the communication
  // of some of them alone, by which prices are measured, and which leaves the state unchanged. If
  // `stop` has a signal, it ends early and is not counted. Excludes the strategy if its loss or a
  // gradient is not finite.
  absl::Status Run(int64_t steps, StopRequest& stop);
  // Forgets the rounds after the first `rounds` ones.
  void KeepRounds(size_t rounds);
  size_t rounds() const { return rounds_.size(); }
  // Collective. Frees the memory.
  void End() { timer_.reset(); }
  // The losses and norms of all steps.
  LossSeries Series() const;
  // Collective. Returns the result of all ranks, after End.
  absl::StatusOr<StrategyResult> Result();

  // The median of the timed steps so far, or else what the prices of the last round predict.
  double median_seconds() const;
  // The loss of the last step.
  double last_loss() const { return result_.losses.back(); }

 private:
  // The lengths of the lists of `result_` at the end of a round, and the sums so far.
  struct Round {
    size_t steps = 0, alone = 0, losses = 0;
    int64_t last_step = 0;
    StepCost sums;
    MeasuredPrices prices;  // of this round
  };

  // Excludes the strategy for an error that all ranks have. Returns an error that they do not.
  absl::Status ExcludeFor(const absl::Status& error);
  absl::Status CompileRun(bool with_view);
  absl::Status RecordResult(const StepResult& step);
  absl::Status RunSteps(int64_t steps, StopRequest& stop);
  absl::Status RunComputationAndCommunicationAlone(int64_t steps, StopRequest& stop);
  // Returns the cost of a step by these prices.
  StepCost CostByPrices(const MeasuredPrices& prices) const;
  // Returns the prices of all rounds but `left_out`, or of all if there is no other one.
  MeasuredPrices PricesOfOthers(size_t left_out) const;
  // Sets what is predicted with the prices that the rounds have measured.
  void Calibrate(StrategyResult* result) const;

  CommandLine line_;
  ConfiguredRun configured_;
  std::vector<std::string> notes_;
  CompiledRun compiled_;  // from Compile to Begin
  int64_t arena_bytes_ = 0, state_bytes_ = 0;
  Rounding rounding_;
  std::unique_ptr<TrainingCheck> check_;
  std::unique_ptr<StepTimer> timer_;
  Program step_;           // of training, from Begin
  MeasuredPrices prices_;  // of the round that runs
  PriceKeeper keeper_;
  StepCost sums_;          // calls and bytes of this rank in all timed steps
  StrategyResult result_;  // of this rank, without `counted`
  std::vector<Round> rounds_;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_COMPARED_STRATEGY_H_
