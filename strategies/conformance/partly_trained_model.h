// A model with frozen, tied and unused parameters.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_PARTLY_TRAINED_MODEL_H_
#define TESSERA_STRATEGIES_CONFORMANCE_PARTLY_TRAINED_MODEL_H_

#include <memory>

#include "core/model/model.h"

namespace tessera {

// Predicts each target from the token before it, through two blocks. The table of token embeddings
// is also used for the predictions (tied); a table outside the blocks and the weight of the first
// block are frozen; a parameter of the second block is trainable and never used.
std::unique_ptr<Model> MakePartlyTrainedModel();

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_PARTLY_TRAINED_MODEL_H_
