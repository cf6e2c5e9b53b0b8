// The cost of a step as JSON, whose fields are documented in tools/compare/json.md.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_FIGURES_COST_JSON_H_
#define TESSERA_TOOLS_FIGURES_COST_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>

#include "core/proto/estimate.pb.h"

namespace tessera {

using Json = nlohmann::ordered_json;

// Returns the list of a step's collectives, with or without their times.
Json CollectivesJson(const StepCost& cost, bool with_times);

// Sets how many tokens and samples are processed in a second: steps of `batch` sequences of
// `sequence` tokens.
void SetRates(int64_t batch, int64_t sequence, double step_seconds, Json* json);

// Returns the predicted cost of such a step.
Json EstimateJson(const StepCost& cost, int64_t batch, int64_t sequence);

}  // namespace tessera

#endif  // TESSERA_TOOLS_FIGURES_COST_JSON_H_
