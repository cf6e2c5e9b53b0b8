#include "models/models.h"

#include <vector>

#include "models/gpt/gpt.h"
#include "models/mlp/mlp.h"

namespace tessera {

absl::Span<const ModelDefinition* const> AllModels() {
  static const auto* const models =
      new std::vector<const ModelDefinition*>{&GptDefinition(), &MlpDefinition()};
  return *models;
}

}  // namespace tessera
