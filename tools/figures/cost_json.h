// The cost of a step as JSON, whose fields are documented in tools/compare/json.md.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_FIGURES_COST_JSON_H_
#define TESSERA_TOOLS_FIGURES_COST_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>

#include "core/model/sample_unit.h"
#include "core/proto/estimate.pb.h"

namespace tessera {

using Json = nlohmann::ordered_json;

// Returns the list of a step's collectives, with or without their times.
Json CollectivesJson(const StepCost& cost, bool with_times);

// Sets how many units ("tokens_per_second") and samples are processed in a second: in steps of
// `batch` rows.
void SetRates(int64_t batch, const SampleUnit& unit, double step_seconds, Json* json);

// Returns the predicted cost of such a step.
Json EstimateJson(const StepCost& cost, int64_t batch, const SampleUnit& unit);

}  // namespace tessera

#endif  // TESSERA_TOOLS_FIGURES_COST_JSON_H_
