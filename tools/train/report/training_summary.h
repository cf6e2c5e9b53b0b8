// The last lines of a training run: steps, speed, evaluation losses, time by operator.
#ifndef TESSERA_TOOLS_TRAIN_REPORT_TRAINING_SUMMARY_H_
#define TESSERA_TOOLS_TRAIN_REPORT_TRAINING_SUMMARY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/types/span.h"
#include "core/cost/step_time.h"
#include "core/ids/table.h"
#include "core/program/program.h"

namespace tessera {

// Returns a loss in nats and in bits per symbol of the data: "1.5508 (2.237 bits per byte)". Only
// nats if `symbol` is "".
std::string LossText(double loss, absl::string_view symbol);

// Collects the events of a run. Not thread-safe.
class TrainingSummary {
 public:
  // Speed is in `unit` ("token"). `symbol` names what the loss is a mean over ("byte"), or is "".
  TrainingSummary(std::string unit, std::string symbol)
      : unit_(std::move(unit)), symbol_(std::move(symbol)) {}

  // Adds a step over so many units.
  void AddStep(int64_t units, double seconds);
  void AddEvaluation(int64_t step, double loss);
  // The times of a step's instructions; a share of all steps is enough. Communication counts only
  // while no computation overlaps it, and only once.
  void AddTimes(const Program& program, const Table<InstructionId, TimeSpan>& times);

  // Returns lines for speed, evaluations and operators. The last two are left out if there were
  // none.
  //
  //   1800 steps, 3.69M tokens in 2m 28s; mean 25.1K tokens/s in steps
  //   eval_loss 1.5508 (2.237 bits per byte) at step 1800, the best
  //   time by operator: matmul 61%, attention 14%, gelu 8%, ..., other 5%
  //
  // `seconds` is the run's duration. The mean is over the time of steps alone.
  std::string Text(double seconds) const;

 private:
  struct Evaluation {
    int64_t step = 0;
    double loss = 0;
  };
  std::string OperatorLine() const;

  const std::string unit_, symbol_;
  int64_t steps_ = 0;
  int64_t units_ = 0;
  double step_seconds_ = 0;
  std::optional<Evaluation> last_, best_;
  std::map<std::string, double> operator_seconds_;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_REPORT_TRAINING_SUMMARY_H_
