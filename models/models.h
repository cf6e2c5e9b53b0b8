// The list of all models.
#ifndef TESSERA_MODELS_MODELS_H_
#define TESSERA_MODELS_MODELS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/model/model.h"

namespace tessera {

// Returns every model, the default one first.
absl::Span<const ModelDefinition* const> AllModels();
std::vector<std::string> ModelNames();

// Returns the model of that name. InvalidArgument, for --model, lists the models.
absl::StatusOr<const ModelDefinition*> FindModel(const std::string& name);

}  // namespace tessera

#endif  // TESSERA_MODELS_MODELS_H_
