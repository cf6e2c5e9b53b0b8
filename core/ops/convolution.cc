#include "core/ops/convolution.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/picture_check.h"
#include "core/ops/recording.h"
#include "core/ops/signatures.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using sbp::B;
using sbp::P;
using sbp::S;

// The dimensions of x, y and the weight that signatures split.
constexpr int kBatch = 0, kChannels = 3;
constexpr int kOut = 0, kIn = 3;

constexpr absl::string_view kWeightDims = "[out, window height, window width, in / groups]";

// Returns whether `channels` of x are whole groups of a weight, each with the same number of output
// channels.
bool GroupsFit(int64_t channels, const Shape& weight) {
  const int64_t groups = GroupsOf(channels, weight[kIn]);
  if (groups == 0) return channels == 0 && weight[kOut] == 0;
  return channels % groups == 0 && channels / groups == weight[kIn] && weight[kOut] % groups == 0;
}

bool HasWindow(const Shape& weight) {
  return weight[1] >= 1 && weight[1] <= kMostTaps && weight[2] >= 1 && weight[2] <= kMostTaps;
}

std::string WindowWanted() {
  return absl::StrCat("with a window of 1 x 1 to ", kMostTaps, " x ", kMostTaps, ", ", kWeightDims);
}

// Returns the type of y (and of its gradient).
TensorType YType(DType dtype, const Shape& x, const PictureWindows& windows, const Shape& weight) {
  return {dtype, {x[kBatch], windows.out_height, windows.out_width, weight[kOut]}};
}

Attributes WithGroups(Attributes attributes, int64_t groups) {
  attributes.Set("groups", groups);
  return attributes;
}

// Returns the attributes of an operator whose result has this shape, with the same windows.
Attributes WithShape(const Attributes& attributes, const Shape& shape) {
  return {{"stride", attributes.GetInts("stride")},
          {"padding", attributes.GetInts("padding")},
          {"dilation", attributes.GetInts("dilation")},
          {"shape", ShapeAttribute(shape)}};
}

// Records the operator itself, for the gradients of its gradients.
Tensor RecordConvolution(Tensor x, Tensor weight, const Attributes& attributes) {
  const Attributes windows = {{"stride", attributes.GetInts("stride")},
                              {"padding", attributes.GetInts("padding")},
                              {"dilation", attributes.GetInts("dilation")}};
  return RecordSingleOutput(ConvolutionOperator(), {x, weight},
                            WithGroups(windows, GroupsOf(x.dim(kChannels), weight.dim(kIn))));
}

// Each of the three operators is linear in both of its inputs, and its gradients are the other two.
class ConvolutionBase : public Operator {
 public:
  explicit ConvolutionBase(ConvolutionResult result) : result_(result) {}

  OpCost Cost(const OpTypes& types) const override {
    const auto sizes = ConvolutionSizes::Of(result_, types.inputs, types.outputs, types.attributes);
    const double products = static_cast<double>(sizes.rows()) *
                            static_cast<double>(sizes.out_channels) *
                            static_cast<double>(sizes.depth());
    return WithFlops(Operator::Cost(types), 2 * products);
  }

 protected:
  // Returns the signatures, first those of batch, output channels and input channels. Groups can be
  // split, but not the channels of a group.
  std::vector<Signature> WithGroupsAndPartial(std::vector<Signature> signatures,
                                              const OpTypes& types) const {
    const auto sizes = ConvolutionSizes::Of(result_, types.inputs, types.outputs, types.attributes);
    if (sizes.groups != 1) {
      signatures.resize(1);
      if (sizes.groups > 1) signatures.push_back(ByGroup(sizes));
    }
    signatures.push_back({{P(), B()}, {P()}});
    signatures.push_back({{B(), P()}, {P()}});
    return signatures;
  }

 private:
  Signature ByGroup(const ConvolutionSizes& sizes) const {
    const AxisLayout x = S(kChannels, sizes.group_in()), y = S(kChannels, sizes.group_out());
    const AxisLayout weight = S(kOut, sizes.group_out());
    switch (result_) {
      case ConvolutionResult::kY:
        break;
      case ConvolutionResult::kDx:
        return {{y, weight}, {x}};
      case ConvolutionResult::kDweight:
        return {{y, x}, {weight}};
    }
    return {{x, weight}, {y}};
  }

  const ConvolutionResult result_;
};

class ConvolutionOp : public ConvolutionBase {
  using Input = ConvolutionInput;

 public:
  ConvolutionOp() : ConvolutionBase(ConvolutionResult::kY) {}

  absl::string_view name() const override { return "convolution"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x", "weight"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.OneFloatingDType(2));
    const Shape &x = inputs[Input::kX].shape, &weight = inputs[Input::kWeight].shape;
    RETURN_IF_ERROR(CheckRankFour(check, Input::kX, inputs[Input::kX], kPictureDims));
    RETURN_IF_ERROR(CheckRankFour(check, Input::kWeight, inputs[Input::kWeight], kWeightDims));
    if (!HasWindow(weight)) return check.Misfit(Input::kWeight, WindowWanted());
    RETURN_IF_ERROR(CheckGroups(check, attributes, x[kChannels], weight));
    ASSIGN_OR_RETURN(const PictureWindows windows,
                     CheckWindows(check, attributes, x, weight[1], weight[2], /*dilates=*/true));
    if (!HasWindows(windows)) return check.Misfit(Input::kX, SizesThatFit(windows));
    return std::vector<TensorType>{YType(inputs[Input::kX].dtype, x, windows, weight)};
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    const Tensor x = builder.input(Input::kX), weight = builder.input(Input::kWeight),
                 dy = builder.output_gradient(0);
    const Attributes of_x = WithShape(builder.attributes(), x.shape()),
                     of_weight = WithShape(builder.attributes(), weight.shape());
    if (builder.needed(Input::kX)) {
      builder.SetInputGradient(
          Input::kX, RecordSingleOutput(ConvolutionGradDataOperator(), {dy, weight}, of_x));
    }
    if (builder.needed(Input::kWeight)) {
      builder.SetInputGradient(
          Input::kWeight, RecordSingleOutput(ConvolutionGradWeightOperator(), {dy, x}, of_weight));
    }
    return absl::OkStatus();
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    return WithGroupsAndPartial({{{S(kBatch), B()}, {S(kBatch)}},
                                 {{B(), S(kOut)}, {S(kChannels)}},
                                 {{S(kChannels), S(kIn)}, {P()}}},
                                types);
  }

  Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const override {
    return WithGroups(attributes, GroupsOf(local.inputs[Input::kX].shape[kChannels],
                                           local.inputs[Input::kWeight].shape[kIn]));
  }

 private:
  // A part of the groups may have none, and then no channels.
  static absl::Status CheckGroups(const InputCheck& check, const Attributes& attributes,
                                  int64_t channels, const Shape& weight) {
    RETURN_IF_ERROR(check.IntIn("groups", 0, kMostTaps));
    const int64_t groups = attributes.GetInt("groups");
    const bool divides = groups == 0 ? channels == 0 : channels % groups == 0;
    if (!divides) {
      return check.Misfit("groups", absl::StrCat("a divisor of ", channels, ", the channels of x"));
    }
    if (groups > 0 && channels / groups != weight[kIn]) {
      return check.Misfit(Input::kWeight,
                          absl::StrCat("of size ", channels / groups, " in dimension 3, as x has ",
                                       channels, " channels in ", groups, " groups"));
    }
    if (groups == 0 ? weight[kOut] == 0 : weight[kOut] % groups == 0) return absl::OkStatus();
    return check.Misfit(
        "groups", absl::StrCat("a divisor of ", weight[kOut], ", the output channels of weight"));
  }
};

class ConvolutionGradDataOp : public ConvolutionBase {
  using Input = ConvolutionGradDataInput;

 public:
  ConvolutionGradDataOp() : ConvolutionBase(ConvolutionResult::kDx) {}

  absl::string_view name() const override { return "convolution_grad_data"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"dy", "weight"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.OneFloatingDType(2));
    ASSIGN_OR_RETURN(const Shape x, GradientShape(check, kPictureDims));
    const Shape& weight = inputs[Input::kWeight].shape;
    RETURN_IF_ERROR(CheckRankFour(check, Input::kWeight, inputs[Input::kWeight], kWeightDims));
    if (!HasWindow(weight)) return check.Misfit(Input::kWeight, WindowWanted());
    if (!GroupsFit(x[kChannels], weight)) {
      return check.Misfit(Input::kWeight, absl::StrCat(kWeightDims, ", as the result has ",
                                                       x[kChannels], " channels"));
    }
    ASSIGN_OR_RETURN(const PictureWindows windows,
                     CheckWindows(check, attributes, x, weight[1], weight[2], /*dilates=*/true));
    if (!HasWindows(windows)) return check.Misfit("shape", SizesThatFit(windows));
    const DType dtype = inputs[Input::kDy].dtype;
    RETURN_IF_ERROR(check.Is(Input::kDy, YType(dtype, x, windows, weight)));
    return std::vector<TensorType>{{dtype, x}};
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    const Tensor dy = builder.input(Input::kDy), weight = builder.input(Input::kWeight),
                 gradient = builder.output_gradient(0);
    const Attributes attributes = builder.attributes();
    if (builder.needed(Input::kDy)) {
      builder.SetInputGradient(Input::kDy, RecordConvolution(gradient, weight, attributes));
    }
    if (builder.needed(Input::kWeight)) {
      builder.SetInputGradient(Input::kWeight,
                               RecordSingleOutput(ConvolutionGradWeightOperator(), {dy, gradient},
                                                  WithShape(attributes, weight.shape())));
    }
    return absl::OkStatus();
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    return WithGroupsAndPartial({{{S(kBatch), B()}, {S(kBatch)}},
                                 {{S(kChannels), S(kOut)}, {P()}},
                                 {{B(), S(kIn)}, {S(kChannels)}}},
                                types);
  }

  Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const override {
    return WithShape(attributes, local.outputs[0].shape);
  }
};

class ConvolutionGradWeightOp : public ConvolutionBase {
  using Input = ConvolutionGradWeightInput;

 public:
  ConvolutionGradWeightOp() : ConvolutionBase(ConvolutionResult::kDweight) {}

  absl::string_view name() const override { return "convolution_grad_weight"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"dy", "x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.OneFloatingDType(2));
    ASSIGN_OR_RETURN(const Shape weight, GradientShape(check, kWeightDims));
    const Shape& x = inputs[Input::kX].shape;
    RETURN_IF_ERROR(CheckRankFour(check, Input::kX, inputs[Input::kX], kPictureDims));
    if (!HasWindow(weight)) return check.Misfit("shape", WindowWanted());
    if (!GroupsFit(x[kChannels], weight)) {
      return check.Misfit("shape",
                          absl::StrCat(kWeightDims, ", as x has ", x[kChannels], " channels"));
    }
    ASSIGN_OR_RETURN(const PictureWindows windows,
                     CheckWindows(check, attributes, x, weight[1], weight[2], /*dilates=*/true));
    if (!HasWindows(windows)) return check.Misfit(Input::kX, SizesThatFit(windows));
    const DType dtype = inputs[Input::kDy].dtype;
    RETURN_IF_ERROR(check.Is(Input::kDy, YType(dtype, x, windows, weight)));
    return std::vector<TensorType>{{dtype, weight}};
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    const Tensor dy = builder.input(Input::kDy), x = builder.input(Input::kX),
                 gradient = builder.output_gradient(0);
    const Attributes attributes = builder.attributes();
    if (builder.needed(Input::kDy)) {
      builder.SetInputGradient(Input::kDy, RecordConvolution(x, gradient, attributes));
    }
    if (builder.needed(Input::kX)) {
      builder.SetInputGradient(Input::kX,
                               RecordSingleOutput(ConvolutionGradDataOperator(), {dy, gradient},
                                                  WithShape(attributes, x.shape())));
    }
    return absl::OkStatus();
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    return WithGroupsAndPartial({{{S(kBatch), S(kBatch)}, {P()}},
                                 {{S(kChannels), B()}, {S(kOut)}},
                                 {{B(), S(kChannels)}, {S(kIn)}}},
                                types);
  }

  Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const override {
    return WithShape(attributes, local.outputs[0].shape);
  }
};

}  // namespace

const Operator& ConvolutionOperator() {
  static const ConvolutionOp op;
  return op;
}

const Operator& ConvolutionGradDataOperator() {
  static const ConvolutionGradDataOp op;
  return op;
}

const Operator& ConvolutionGradWeightOperator() {
  static const ConvolutionGradWeightOp op;
  return op;
}

Tensor Convolution(Tensor x, Tensor weight, const ConvolutionOptions& options) {
  return RecordSingleOutput(ConvolutionOperator(), {x, weight},
                            {{"stride", ShapeAttribute(options.stride)},
                             {"padding", ShapeAttribute(options.padding)},
                             {"dilation", ShapeAttribute(options.dilation)},
                             {"groups", options.groups}});
}

}  // namespace tessera
