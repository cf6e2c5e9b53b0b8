#include "tools/compare/comparison.h"

#include <algorithm>
#include <cstddef>

#include "tools/figures/recommendation.h"

namespace tessera {
namespace {

// Returns the figures of a strategy whose steps were measured or predicted.
StrategyFigures FiguresOf(const StrategyResult& result) {
  const bool calibrated = result.calibrated.step_seconds() > 0;
  StrategyFigures figures =
      PredictedFigures(calibrated ? result.calibrated : result.estimated, result.batch);
  figures.label = result.label;
  figures.fits = result.outcome != Outcome::kDoesNotFit;
  figures.micro_batches = result.micro_batches;
  if (result.outcome == Outcome::kPriced) {
    figures.spread_seconds = HalfInterquartileRange(result.calibrated_rounds);
  }
  if (result.outcome != Outcome::kRan) return figures;
  const double predicted = figures.computation_seconds;
  figures.step_seconds = Quantile(result.step_seconds, 0.5);
  figures.spread_seconds = HalfInterquartileRange(result.step_seconds);
  figures.computation_seconds = Quantile(result.computation_seconds, 0.5);
  // Its share of the computation is the predicted one.
  if (predicted > 0) figures.recomputation_seconds *= figures.computation_seconds / predicted;
  figures.exposed_seconds = ExposedSeconds(result);
  figures.peak_bytes = result.counted.peak_bytes();
  figures.samples_per_second = static_cast<double>(result.batch) / figures.step_seconds;
  return figures;
}

}  // namespace

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
}

double HalfInterquartileRange(const std::vector<double>& values) {
  return (Quantile(values, 0.75) - Quantile(values, 0.25)) / 2;
}

double ExposedSeconds(const StrategyResult& result) {
  return std::max(0.0,
                  Quantile(result.step_seconds, 0.5) - Quantile(result.computation_seconds, 0.5));
}

int64_t CommonBatch(const Comparison& comparison) {
  std::vector<int64_t> batches;
  for (const StrategyResult& result : comparison.strategies) batches.push_back(result.batch);
  return MostFrequentBatch(batches);
}

std::string RecommendationOf(const Comparison& comparison) {
  std::vector<StrategyFigures> figures;
  bool any_ran = false;
  for (const StrategyResult& result : comparison.strategies) {
    const bool ran = result.outcome == Outcome::kRan;
    const bool is_priced =
        result.outcome == Outcome::kPriced && result.calibrated.step_seconds() > 0;
    const bool is_planned =
        result.outcome == Outcome::kPlanned && result.estimated.step_seconds() > 0;
    any_ran = any_ran || ran;
    if (ran || is_priced || is_planned || result.outcome == Outcome::kDoesNotFit) {
      figures.push_back(FiguresOf(result));
    }
  }
  return Recommendation(figures, any_ran ? FiguresAre::kMeasured : FiguresAre::kPredicted);
}

}  // namespace tessera
