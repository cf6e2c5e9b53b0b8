// The positions of the operands of convolution and of its gradients by data and by weight, and the
// sizes that all three have in common.
//
// x is [batch, height, width, in], weight is [out, window height, window width, in / groups] and y
// is [batch, out_height, out_width, out]. Channels of a group are consecutive.
#ifndef TESSERA_CORE_OPS_CONVOLUTION_H_
#define TESSERA_CORE_OPS_CONVOLUTION_H_

#include <cstdint>

#include "absl/types/span.h"
#include "core/graph/attributes.h"
#include "core/ops/sliding_window.h"
#include "core/tensor/shape.h"

namespace tessera {

struct ConvolutionInput {
  enum : int { kX, kWeight, kCount };
};

struct ConvolutionGradDataInput {
  enum : int { kDy, kWeight, kCount };
};

struct ConvolutionGradWeightInput {
  enum : int { kDy, kX, kCount };
};

// Which of the three operands is computed from the other two.
enum class ConvolutionResult { kY, kDx, kDweight };

// Returns the number of groups, from the channels of x and the last dimension of the weight; 0 if
// this is a part of the groups that has none.
inline int64_t GroupsOf(int64_t in_channels, int64_t channels_of_group) {
  return channels_of_group == 0 ? 1 : in_channels / channels_of_group;
}

struct ConvolutionSizes {
  int64_t batch = 0, in_channels = 0, out_channels = 0, groups = 1;
  PictureWindows windows;

  ConvolutionSizes(const Shape& x, const Shape& weight, const Attributes& attributes)
      : batch(x[0]),
        in_channels(x[3]),
        out_channels(weight[0]),
        groups(GroupsOf(x[3], weight[3])),
        windows(WindowsOver(x, attributes, weight[1], weight[2])) {}

  // Returns the sizes of a use of the operator that computes `result`.
  static ConvolutionSizes Of(ConvolutionResult result, absl::Span<const TensorType> inputs,
                             absl::Span<const TensorType> outputs, const Attributes& attributes) {
    switch (result) {
      case ConvolutionResult::kY:
        break;
      case ConvolutionResult::kDx:
        return {outputs[0].shape, inputs[ConvolutionGradDataInput::kWeight].shape, attributes};
      case ConvolutionResult::kDweight:
        return {inputs[ConvolutionGradWeightInput::kX].shape, outputs[0].shape, attributes};
    }
    return {inputs[ConvolutionInput::kX].shape, inputs[ConvolutionInput::kWeight].shape,
            attributes};
  }

  // Returns whether nothing is multiplied, because a batch has no pictures or pictures no channels.
  bool empty() const { return batch == 0 || in_channels == 0 || out_channels == 0; }
  int64_t group_in() const { return groups == 0 ? 0 : in_channels / groups; }
  int64_t group_out() const { return groups == 0 ? 0 : out_channels / groups; }
  // Returns the number of windows in the batch.
  int64_t rows() const { return batch * windows.out_height * windows.out_width; }
  // Returns the elements of a group that a window reads.
  int64_t depth() const { return windows.taps() * group_in(); }
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_CONVOLUTION_H_
