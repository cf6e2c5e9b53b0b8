// A small network with two inputs, the example of docs/writing-a-model.md: predicts how many stars
// a user gives to an item. Parameters:
//
//   users.weight [users, channels], items.weight [items, channels]
//   hidden.weight [hidden, 2 * channels], .bias [hidden]
//   head.weight [stars, hidden], .bias [stars]
#ifndef TESSERA_MODELS_RATINGS_RATINGS_H_
#define TESSERA_MODELS_RATINGS_RATINGS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/model.h"
#include "models/ratings/ratings.pb.h"

namespace tessera {

// Returns InvalidArgument, with the name of the invalid field ("model.users: ...").
absl::StatusOr<std::unique_ptr<Model>> CreateRatings(const RatingsConfig& config);

// Returns the files of presets/.
std::vector<Preset> RatingsPresets();

const ModelDefinition& RatingsDefinition();

}  // namespace tessera

#endif  // TESSERA_MODELS_RATINGS_RATINGS_H_
