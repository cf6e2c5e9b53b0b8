// A multilayer perceptron on pictures, whose numbers are one vector for it. Parameters:
//
//   layers.{i}.weight [units, inputs], .bias [units]
//   head.weight [classes, inputs], .bias [classes]
//
// Each "layers.{i}" is a block that a strategy may treat as one unit.
//
// The presets mlp_a and mlp_b have the shapes on which searches for tensor parallelism are compared
// (arXiv 2301.06813): two products, 1024-4096-1024, for 512 and 8192 rows.
#ifndef TESSERA_MODELS_PICTURE_MLP_PICTURE_MLP_H_
#define TESSERA_MODELS_PICTURE_MLP_PICTURE_MLP_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/model.h"
#include "models/picture_mlp/picture_mlp.pb.h"

namespace tessera {

// Returns InvalidArgument, with the name of the invalid field ("model.height: ...").
absl::StatusOr<std::unique_ptr<Model>> CreatePictureMlp(const PictureMlpConfig& config);

// Returns the files of presets/, "tiny" first.
std::vector<Preset> PictureMlpPresets();

const ModelDefinition& PictureMlpDefinition();

}  // namespace tessera

#endif  // TESSERA_MODELS_PICTURE_MLP_PICTURE_MLP_H_
