#include "core/ops/random_crop_flip.h"

#include <algorithm>

#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/picture_check.h"
#include "core/ops/pooling.h"
#include "core/ops/random_draw.h"
#include "core/ops/signatures.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using sbp::B;
using sbp::S;

class RandomCropFlipOp : public Operator {
  using Input = RandomCropFlipInput;

 public:
  absl::string_view name() const override { return "random_crop_flip"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"pictures", "seed", "step"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    const TensorType& pictures = inputs[Input::kPictures];
    if (pictures.dtype != DType::kU8) return check.Misfit(Input::kPictures, "u8");
    RETURN_IF_ERROR(CheckRankFour(check, Input::kPictures, pictures, kPictureDims));
    RETURN_IF_ERROR(check.Is(Input::kSeed, {DType::kI64, {}}));
    RETURN_IF_ERROR(check.Is(Input::kStep, {DType::kI64, {}}));
    // So that every window reaches the picture.
    const int64_t least = std::min({pictures.shape[1], pictures.shape[2], kMostTaps});
    RETURN_IF_ERROR(check.IntIn("padding", 0, std::max<int64_t>(least, 1)));
    RETURN_IF_ERROR(check.Has<bool>("flip"));
    RETURN_IF_ERROR(CheckDraw(check, attributes, pictures.shape));
    return std::vector<TensorType>{pictures};
  }

  bool Differentiable(int input) const override { return false; }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    std::vector<Signature> signatures;
    for (const int d : kPoolingDims) signatures.push_back({{S(d), B(), B()}, {S(d)}});
    return signatures;
  }

  Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const override {
    return WithDrawnRegion(attributes, local.outputs[0].shape, local.output_regions[0]);
  }
};

}  // namespace

const Operator& RandomCropFlipOperator() {
  static const RandomCropFlipOp op;
  return op;
}

Tensor RandomCropFlip(Tensor pictures, int64_t padding, bool flip) {
  return RecordDraw(RandomCropFlipOperator(), pictures, {{"padding", padding}, {"flip", flip}});
}

}  // namespace tessera
