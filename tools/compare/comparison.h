// Measurements of strategies on one model.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_COMPARE_COMPARISON_H_
#define TESSERA_TOOLS_COMPARE_COMPARISON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/model/sample_unit.h"
#include "core/proto/estimate.pb.h"
#include "core/proto/strategy.pb.h"
#include "tools/report/step_view.h"

namespace tessera {

enum class Outcome {
  kRan,         // all rounds, or those before an interrupt, and it trains as the others do
  kNotRun,      // there was an interrupt before its first round ended
  kDoesNotFit,  // in the memory limit, or in the machine's memory
  kFailed,
  kDiffers,  // it trains differently
  kPriced,   // only its prices were measured
  kPlanned,  // nothing was to run: --plan_only
};

// A strategy's steps on the slowest rank.
struct StrategyResult {
  std::string label;
  int64_t batch = 0;          // rows of a step
  int64_t micro_batches = 1;  // of a step
  // That the user has set for a rank, or of a device that --cluster describes; 0: none.
  int64_t memory_limit_bytes = 0;
  Outcome outcome = Outcome::kNotRun;
  std::string remark;                // for its column: "does not fit: 44.9 MiB"; "" if it ran
  std::string fault;                 // one sentence without its end; "" if it ran
  std::vector<double> step_seconds;  // of the timed steps
  std::vector<double> computation_seconds;    // of steps without communication
  std::vector<double> communication_seconds;  // of a step's collectives, one after the other
  std::vector<double> losses, grad_norms;     // of all steps; the first one is not timed
  int64_t last_step = 0;
  StepCost estimated;  // before anything ran
  // By the prices of kernels and collectives that all rounds have measured.
  StepCost calibrated;
  // By round: the predicted seconds of a step by the prices of the other rounds (of this one, if
  // there is no other). If no steps are timed, they are those by the round's own prices.
  std::vector<double> calibrated_rounds;
  // The memory that a rank has allocated, and the collectives of the rank that has the most.
  StepCost counted;
  // An error if the counted collectives differ from the estimated ones.
  absl::Status same_collectives;
  std::optional<StepView> view;       // of its predicted step, for a report
  strategy::Explanation explanation;  // of its Plan, on rank 0
};

struct Comparison {
  std::string model;  // "gpt: 842K parameters, 16 sequences of 128 tokens a step, adamw"
  std::string ranks;  // "2 ranks, shm"; "" for one process
  int num_ranks = 1;
  std::string processor;  // "AMD EPYC, AVX2", of each rank
  int threads = 0;        // of each rank
  std::string cluster;    // that estimates are for
  // All ranks ran on one host, and estimates are those of ranks on several: --hosts.
  bool on_loopback = false;
  bool predicted_only = false;  // nothing was to run: --plan_only
  SampleUnit unit;              // of a row of the batch
  int rounds = 0;
  bool alternated = true;  // else the strategies ran one after the other
  std::vector<StrategyResult> strategies;
};

// Returns a quantile of `values`, which must not be empty: 0.5 is the median.
double Quantile(std::vector<double> values, double q);

// Returns half the range from the first to the third quartile.
double HalfInterquartileRange(const std::vector<double>& values);

// Returns the time of a step that communication adds to computation: the difference of the medians,
// and no less than 0.
double ExposedSeconds(const StrategyResult& result);

// Returns the batch that most strategies have, the first of several. A strategy with another batch
// does another training: only its samples per second can be compared.
int64_t CommonBatch(const Comparison& comparison);

// Returns the sentence that says which strategy to choose, and why (recommendation.h); "" if there
// is no choice.
std::string RecommendationOf(const Comparison& comparison);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_COMPARISON_H_
