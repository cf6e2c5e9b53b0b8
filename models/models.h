// The list of all models.
#ifndef TESSERA_MODELS_MODELS_H_
#define TESSERA_MODELS_MODELS_H_

#include "absl/types/span.h"
#include "core/model/model.h"

namespace tessera {

// Returns every model, the default one first.
absl::Span<const ModelDefinition* const> AllModels();

}  // namespace tessera

#endif  // TESSERA_MODELS_MODELS_H_
