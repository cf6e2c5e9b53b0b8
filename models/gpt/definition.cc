#include "models/gpt/gpt.h"

namespace tessera {

const ModelDefinition& ThisModel() { return GptDefinition(); }

}  // namespace tessera
