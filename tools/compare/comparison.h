// Measurements of strategies on one model, as a table and as JSON.
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

// A strategy's steps on the slowest rank.
struct StrategyResult {
  std::string label;
  std::vector<double> step_seconds;           // of the timed steps
  std::vector<double> computation_seconds;    // of steps without communication
  std::vector<double> communication_seconds;  // of a step's collectives, one after the other
  bool lowered = false;                       // parameters are used in 16 bits
  double first_loss = 0;
  double last_loss = 0;
  int64_t last_step = 0;
  StepCost estimated;
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
  int64_t tokens = 0;     // of a step
  int rounds = 0;
  bool alternated = true;  // else the strategies ran one after the other
  std::vector<StrategyResult> strategies;
};

// Returns a quantile of `values`, which must not be empty: 0.5 is the median.
double Quantile(std::vector<double> values, double q);

// Returns the time of a step that communication adds to computation: the difference of the medians,
// and no less than 0.
double ExposedSeconds(const StrategyResult& result);

// Internal if the losses of the first step differ by more than a share of 1e-5: the same initial
// state and data give the same loss, up to the order of sums. If one of the two lowers the
// precision, the share is 1e-2.
absl::Status CheckFirstLoss(const StrategyResult& base, const StrategyResult& other);

// Returns a table with two columns for each strategy, estimated and measured.
std::string ComparisonTable(const Comparison& comparison);

// Returns one JSON object, whose times are in seconds and sizes in bytes.
std::string ComparisonJson(const Comparison& comparison);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_COMPARISON_H_
