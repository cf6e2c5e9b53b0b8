// The neural language model of Bengio et al. 2003 ("A Neural Probabilistic Language Model"): the
// concatenated embeddings of a window of tokens go through hidden layers, which predict the token
// after the window. Parameters, at the paths and in the shapes of tests/parity:
//
//   embed.weight [vocabulary, channels]
//   layers.{i}.weight [hidden[i], inputs], .bias [hidden[i]]
//   head.weight [vocabulary, inputs]
//
// Each "layers.{i}" is a block that a strategy may treat as one unit.
#ifndef TESSERA_MODELS_MLP_MLP_H_
#define TESSERA_MODELS_MLP_MLP_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/language_model.h"
#include "core/model/model.h"
#include "models/mlp/mlp.pb.h"

namespace tessera {

// Returns InvalidArgument, with the name of the invalid field ("model.window: ...").
absl::StatusOr<std::unique_ptr<LanguageModel>> CreateMlp(const MlpConfig& config);

// Returns the files of presets/, "tiny" first.
std::vector<Preset> MlpPresets();

const ModelDefinition& MlpDefinition();

}  // namespace tessera

#endif  // TESSERA_MODELS_MLP_MLP_H_
