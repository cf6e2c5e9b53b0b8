// Measurements of strategies on one model, and their table.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_COMPARE_COMPARISON_H_
#define TESSERA_TOOLS_COMPARE_COMPARISON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/proto/estimate.pb.h"

namespace tessera {

enum class Outcome {
  kRan,         // all rounds, or those before an interrupt, and it trains as the others do
  kNotRun,      // there was an interrupt before its first round ended
  kDoesNotFit,  // in the memory limit, or in the machine's memory
  kFailed,
  kDiffers,  // it trains differently
  kPriced,   // only its prices were measured
};

// A strategy's steps on the slowest rank.
struct StrategyResult {
  std::string label;
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
  // there is no other), and the number of timed steps. If there are none, the predicted seconds are
  // those by the round's own prices.
  std::vector<double> calibrated_rounds;
  std::vector<int64_t> round_steps;
  // The memory that a rank has allocated, and the collectives of the rank that has the most.
  StepCost counted;
  // An error if the counted collectives differ from the estimated ones.
  absl::Status same_collectives;
};

struct Comparison {
  std::string model;      // "gpt: 842K parameters, 16 sequences of 128 tokens a step, adamw"
  std::string ranks;      // "2 ranks, shm"; "" for one process
  std::string processor;  // "AMD EPYC, AVX2", of each rank
  int threads = 0;        // of each rank
  std::string cluster;    // that estimates are for
  // All ranks ran on one host, and estimates are those of ranks on several: --hosts.
  bool on_loopback = false;
  int64_t tokens = 0;  // of a step
  int rounds = 0;
  bool alternated = true;  // else the strategies ran one after the other
  std::vector<StrategyResult> strategies;
};

// Returns a quantile of `values`, which must not be empty: 0.5 is the median.
double Quantile(std::vector<double> values, double q);

// Returns the time of a step that communication adds to computation: the difference of the medians,
// and no less than 0.
double ExposedSeconds(const StrategyResult& result);

// Returns a table with two columns for each strategy, estimated and measured. Of a strategy that
// trains differently or has failed, it has no times: they are not those of the same work.
std::string ComparisonTable(const Comparison& comparison);

// Returns the table of strategies whose prices were measured: the step times that they predict.
std::string PredictionTable(const Comparison& comparison);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_COMPARISON_H_
