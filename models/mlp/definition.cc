#include "models/mlp/mlp.h"

namespace tessera {

const ModelDefinition& ThisModel() { return MlpDefinition(); }

}  // namespace tessera
