#include "tools/compare/comparison_json.h"

#include "tools/figures/cost_json.h"

namespace tessera {
namespace {

// Grows when a field is removed, or gets another meaning.
constexpr int kSchemaVersion = 1;

std::string NameOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kRan:
      return "ran";
    case Outcome::kDoesNotFit:
      return "does not fit";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kDiffers:
      return "trains differently";
    case Outcome::kPriced:
      return "only priced";
    case Outcome::kPlanned:
      return "only planned";
    case Outcome::kNotRun:
      break;
  }
  return "not run";
}

Json MeasuredJson(const StrategyResult& result, const SampleUnit& unit) {
  const double median = Quantile(result.step_seconds, 0.5);
  Json json;
  json["step_seconds"] = median;
  json["first_quartile_seconds"] = Quantile(result.step_seconds, 0.25);
  json["third_quartile_seconds"] = Quantile(result.step_seconds, 0.75);
  SetRates(result.batch, unit, median, &json);
  json["computation_seconds"] = Quantile(result.computation_seconds, 0.5);
  json["communication_seconds"] = Quantile(result.communication_seconds, 0.5);
  json["exposed_seconds"] = ExposedSeconds(result);
  json["peak_bytes"] = result.counted.peak_bytes();
  json["collectives"] = CollectivesJson(result.counted, /*with_times=*/false);
  json["steps"] = result.step_seconds;
  json["computations"] = result.computation_seconds;
  json["communications"] = result.communication_seconds;
  json["losses"] = result.losses;
  json["grad_norms"] = result.grad_norms;
  json["first_loss"] = result.losses.front();
  json["last_loss"] = result.losses.back();
  json["last_step"] = result.last_step;
  return json;
}

Json StrategyJson(const StrategyResult& result, const SampleUnit& unit) {
  Json json;
  json["name"] = result.label;
  json["outcome"] = NameOf(result.outcome);
  if (!result.fault.empty()) json["fault"] = result.fault;
  json["batch"] = result.batch;
  json["micro_batches"] = result.micro_batches;
  if (result.memory_limit_bytes > 0) json["memory_limit_bytes"] = result.memory_limit_bytes;
  if (result.estimated.step_seconds() > 0) {
    json["estimated"] = EstimateJson(result.estimated, result.batch, unit);
  }
  const bool ran = result.outcome == Outcome::kRan;
  if ((ran || result.outcome == Outcome::kPriced) && result.calibrated.step_seconds() > 0) {
    Json& calibrated = json["calibrated"] = EstimateJson(result.calibrated, result.batch, unit);
    calibrated["rounds"] = result.calibrated_rounds;
  }
  if (ran) json["measured"] = MeasuredJson(result, unit);
  return json;
}

}  // namespace

std::string ComparisonJson(const Comparison& comparison) {
  Json json;
  json["schema_version"] = kSchemaVersion;
  json["model"] = comparison.model;
  json["ranks"] = comparison.ranks;
  json["processor"] = comparison.processor;
  json["threads"] = comparison.threads;
  json["cluster"] = comparison.cluster;
  json["measured_on_loopback"] = comparison.on_loopback;
  json["batch"] = CommonBatch(comparison);
  json[comparison.unit.unit + "s"] = CommonBatch(comparison) * comparison.unit.per_row;
  json["rounds"] = comparison.rounds;
  json["alternated"] = comparison.alternated;
  const std::string recommendation = RecommendationOf(comparison);
  if (!recommendation.empty()) json["recommendation"] = recommendation;
  json["strategies"] = Json::array();
  for (const StrategyResult& result : comparison.strategies) {
    json["strategies"].push_back(StrategyJson(result, comparison.unit));
  }
  return json.dump(2) + "\n";
}

}  // namespace tessera
