#include "core/ops/max_pool.h"

#include "absl/strings/str_cat.h"
#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/picture_check.h"
#include "core/ops/pooling.h"
#include "core/ops/recording.h"
#include "core/ops/signatures.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using sbp::B;
using sbp::P;
using sbp::S;

// The positions in a window are numbers of 8 bits.
constexpr int64_t kMostPositions = 256;

absl::StatusOr<PictureWindows> CheckMaxWindows(const InputCheck& check,
                                               const Attributes& attributes, const Shape& picture) {
  ASSIGN_OR_RETURN(const PictureWindows windows, CheckPoolingWindows(check, attributes, picture));
  if (windows.taps() <= kMostPositions) return windows;
  return check.Misfit("window", absl::StrCat("of at most ", kMostPositions, " elements"));
}

class MaxPoolOp : public Operator {
 public:
  absl::string_view name() const override { return "max_pool"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(0));
    const TensorType& x = inputs[0];
    RETURN_IF_ERROR(CheckRankFour(check, 0, x, kPictureDims));
    ASSIGN_OR_RETURN(const PictureWindows windows, CheckMaxWindows(check, attributes, x.shape));
    if (!HasWindows(windows)) return check.Misfit(0, SizesThatFit(windows));
    const Shape y = PooledShape(x.shape, windows);
    return std::vector<TensorType>{{x.dtype, y}, {DType::kU8, y}};
  }

  absl::string_view OutputName(int i) const override {
    return i == MaxPoolOutput::kY ? "" : "index";
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    const Attributes attributes =
        PoolingGradAttributes(builder.attributes(), builder.input(0).shape());
    builder.SetInputGradient(0, RecordSingleOutput(MaxPoolGradOperator(),
                                                   {builder.output_gradient(MaxPoolOutput::kY),
                                                    builder.output(MaxPoolOutput::kIndex)},
                                                   attributes));
    return absl::OkStatus();
  }

  bool IsContinuous() const override { return false; }  // the index is not

  // One comparison for each element of a window.
  OpCost Cost(const OpTypes& types) const override {
    const PictureWindows windows = PoolingWindows(types.inputs[0].shape, types.attributes);
    return WithFlops(Operator::Cost(types), Elements(types.outputs[MaxPoolOutput::kY]) *
                                                static_cast<double>(windows.taps()));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    std::vector<Signature> signatures;
    for (const int d : kPoolingDims) signatures.push_back({{S(d)}, {S(d), S(d)}});
    return signatures;
  }
};

class MaxPoolGradOp : public Operator {
  using Input = MaxPoolGradInput;

 public:
  absl::string_view name() const override { return "max_pool_grad"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"dy", "index"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(Input::kDy));
    ASSIGN_OR_RETURN(const Shape x, GradientShape(check, kPictureDims));
    ASSIGN_OR_RETURN(const PictureWindows windows, CheckMaxWindows(check, attributes, x));
    if (!HasWindows(windows)) return check.Misfit("shape", SizesThatFit(windows));
    const DType dtype = inputs[Input::kDy].dtype;
    const Shape y = PooledShape(x, windows);
    RETURN_IF_ERROR(check.Is(Input::kDy, {dtype, y}));
    RETURN_IF_ERROR(check.Is(Input::kIndex, {DType::kU8, y}));
    return std::vector<TensorType>{{dtype, x}};
  }

  // One comparison and one addition for each element of a window.
  OpCost Cost(const OpTypes& types) const override {
    const PictureWindows windows = PoolingWindows(types.outputs[0].shape, types.attributes);
    return WithFlops(Operator::Cost(types),
                     2 * Elements(types.inputs[Input::kDy]) * static_cast<double>(windows.taps()));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    std::vector<Signature> signatures;
    for (const int d : kPoolingDims) signatures.push_back({{S(d), S(d)}, {S(d)}});
    signatures.push_back({{P(), B()}, {P()}});
    return signatures;
  }

  Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const override {
    return PoolingGradAttributes(attributes, local.outputs[0].shape);
  }
};

}  // namespace

const Operator& MaxPoolOperator() {
  static const MaxPoolOp op;
  return op;
}

const Operator& MaxPoolGradOperator() {
  static const MaxPoolGradOp op;
  return op;
}

Tensor MaxPool(Tensor x, const PoolingOptions& options) {
  return RecordOperator(MaxPoolOperator(), {x}, PoolingAttributes(options), 2)[MaxPoolOutput::kY];
}

}  // namespace tessera
