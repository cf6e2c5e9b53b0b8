// The VGG family (Simonyan and Zisserman 2014, "Very Deep Convolutional Networks for Large-Scale
// Image Recognition"), for pictures of any size: convolutions of 3 x 3 and pools of 2 x 2, then
// flat layers. Parameters:
//
//   features.{i}.weight [out, 3, 3, in], .bias [out]           of convolution i
//   with batch norm, which is after each of these convolutions, instead of that bias:
//   features.{i}.norm.weight [out], .bias [out]
//   hidden.0.weight [units, height, width, in], .bias [units]  a convolution of all that is left
//   hidden.{i}.weight [units, inputs], .bias [units]
//   head.weight [classes, inputs], .bias [classes]
//
// With batch norm, features.{i}.norm.running_mean and .running_variance [out] are running
// statistics, by which evaluation normalizes. Training normalizes by the statistics of the pictures
// that have a label, of the global batch or of each of batch_norm_groups groups of its rows.
//
// Each "features.{i}" and each "hidden.{i}" is a block that a strategy may treat as one unit.
#ifndef TESSERA_MODELS_VGG_VGG_H_
#define TESSERA_MODELS_VGG_VGG_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/model.h"
#include "models/vgg/vgg.pb.h"

namespace tessera {

// Returns InvalidArgument, with the name of the invalid field ("model.height: ...").
absl::StatusOr<std::unique_ptr<Model>> CreateVgg(const VggConfig& config);

// Returns the files of presets/, "tiny" first.
std::vector<Preset> VggPresets();

const ModelDefinition& VggDefinition();

}  // namespace tessera

#endif  // TESSERA_MODELS_VGG_VGG_H_
