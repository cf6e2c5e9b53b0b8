// Which of several strategies to choose for a model, and why, in one sentence.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_FIGURES_RECOMMENDATION_H_
#define TESSERA_TOOLS_FIGURES_RECOMMENDATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/proto/estimate.pb.h"

namespace tessera {

// A strategy's step, measured or predicted.
struct StrategyFigures {
  // A part of the exposed communication, that of one operation, such as "all-gather". Only the
  // ratios of the parts count, so they may be predicted beside a measured sum.
  struct Exposed {
    std::string operation;
    double seconds = 0;
  };

  std::string label;
  bool fits = true;  // in the memory; if not, only the label, the ranks and peak_bytes count
  int ranks = 1;
  int64_t batch = 0;  // samples of a step; another batch is another training
  int64_t micro_batches = 1;
  double step_seconds = 0;           // above 0 if it fits
  double spread_seconds = 0;         // half the interquartile range of steps; 0 if predicted
  double computation_seconds = 0;    // of a step without its communication
  double recomputation_seconds = 0;  // part of computation_seconds; 0 if not known
  double exposed_seconds = 0;        // communication during which nothing is computed
  std::vector<Exposed> exposed;      // may be empty
  int64_t peak_bytes = 0;            // of a rank; 0 if not known
  double samples_per_second = 0;
};

// Returns the figures of a step as it is predicted, in which a step has `batch` samples. The label
// and the other settings are left to the caller.
StrategyFigures PredictedFigures(const StepCost& cost, int64_t batch);

enum class FiguresAre { kMeasured, kPredicted };

// Returns the batch that occurs most often, the first of several; 0 if there is none.
int64_t MostFrequentBatch(absl::Span<const int64_t> batches);

// Returns a sentence without its end: the fastest strategy that fits, or those that are equally
// fast; of one or two others, how much slower they are, why, and how much more or less memory they
// need; the strategies that do not fit. Returns "" for less than two strategies. Strategies that
// failed must be left out.
//
// Step times differ if their difference exceeds the larger spread of the two, and 1 % of the
// shorter one. They are compared among strategies of the most frequent batch. The best one with
// another batch is compared by samples per second. Amounts of memory differ from 1 % on.
std::string Recommendation(absl::Span<const StrategyFigures> strategies, FiguresAre figures);

}  // namespace tessera

#endif  // TESSERA_TOOLS_FIGURES_RECOMMENDATION_H_
