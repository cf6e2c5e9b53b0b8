#include "tools/compare/comparison_json.h"

#include "nlohmann/json.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

// Grows when a field is removed, or gets another meaning.
constexpr int kSchemaVersion = 1;

Json CollectivesJson(const StepCost& cost, bool with_times) {
  Json list = Json::array();
  for (const StepCost::Collective& collective : cost.collectives()) {
    Json each;
    each["operation"] = collective.operation();
    each["mesh_axes"] = Json::array();
    for (const std::string& axis : collective.mesh_axes()) each["mesh_axes"].push_back(axis);
    each["calls"] = collective.calls();
    each["bytes"] = collective.bytes();
    if (with_times) {
      each["seconds"] = collective.seconds();
      each["exposed_seconds"] = collective.exposed_seconds();
    }
    list.push_back(std::move(each));
  }
  return list;
}

// Sets how much a step processes in a second.
void SetRates(int64_t batch, int64_t sequence, double step_seconds, Json* json) {
  const double samples = static_cast<double>(batch) / step_seconds;
  (*json)["tokens_per_second"] = samples * static_cast<double>(sequence);
  (*json)["samples_per_second"] = samples;
}

Json EstimateJson(const StepCost& cost, int64_t batch, int64_t sequence) {
  Json json;
  json["step_seconds"] = cost.step_seconds();
  SetRates(batch, sequence, cost.step_seconds(), &json);
  json["computation_seconds"] = cost.computation_seconds();
  json["measured_seconds"] = cost.measured_seconds();
  json["interpolated_seconds"] = cost.interpolated_seconds();
  json["exposed_seconds"] = cost.exposed_seconds();
  json["peak_bytes"] = cost.peak_bytes();
  for (const StepCost::Memory& memory : cost.memory()) {
    json[memory.on_host() ? "host_memory" : "memory"][memory.category()] = memory.bytes();
  }
  for (const StepCost::HostCopies& copies : cost.host_copies()) {
    json[copies.to_host() ? "copies_to_host" : "copies_from_host"] = {{"calls", copies.calls()},
                                                                      {"bytes", copies.bytes()}};
  }
  json["collectives"] = CollectivesJson(cost, /*with_times=*/true);
  return json;
}

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
    case Outcome::kNotRun:
      break;
  }
  return "not run";
}

Json MeasuredJson(const StrategyResult& result, int64_t sequence) {
  const double median = Quantile(result.step_seconds, 0.5);
  Json json;
  json["step_seconds"] = median;
  json["first_quartile_seconds"] = Quantile(result.step_seconds, 0.25);
  json["third_quartile_seconds"] = Quantile(result.step_seconds, 0.75);
  SetRates(result.batch, sequence, median, &json);
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

Json StrategyJson(const StrategyResult& result, int64_t sequence) {
  Json json;
  json["name"] = result.label;
  json["outcome"] = NameOf(result.outcome);
  if (!result.fault.empty()) json["fault"] = result.fault;
  json["batch"] = result.batch;
  json["micro_batches"] = result.micro_batches;
  if (result.estimated.step_seconds() > 0) {
    json["estimated"] = EstimateJson(result.estimated, result.batch, sequence);
  }
  const bool ran = result.outcome == Outcome::kRan;
  if ((ran || result.outcome == Outcome::kPriced) && result.calibrated.step_seconds() > 0) {
    Json& calibrated = json["calibrated"] = EstimateJson(result.calibrated, result.batch, sequence);
    calibrated["rounds"] = result.calibrated_rounds;
  }
  if (ran) json["measured"] = MeasuredJson(result, sequence);
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
  json["tokens"] = CommonBatch(comparison) * comparison.sequence;
  json["rounds"] = comparison.rounds;
  json["alternated"] = comparison.alternated;
  const std::string recommendation = RecommendationOf(comparison);
  if (!recommendation.empty()) json["recommendation"] = recommendation;
  json["strategies"] = Json::array();
  for (const StrategyResult& result : comparison.strategies) {
    json["strategies"].push_back(StrategyJson(result, comparison.sequence));
  }
  return json.dump(2) + "\n";
}

}  // namespace tessera
