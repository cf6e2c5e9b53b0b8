#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/ops/signatures.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// A block: consecutive dimensions of both shapes that hold the same elements. x[x_begin, x_end) and
// y[y_begin, y_end) have the same product, and no shorter prefix of them has.
struct Block {
  int x_begin, x_end, y_begin, y_end;
};

// Returns the blocks of two shapes, which must have the same number of elements, but not 0.
std::vector<Block> CommonBlocks(const Shape& x, const Shape& y) {
  std::vector<Block> blocks;
  const int x_rank = static_cast<int>(x.size()), y_rank = static_cast<int>(y.size());
  int i = 0, j = 0;
  while (i < x_rank && j < y_rank) {
    Block block{i, i + 1, j, j + 1};
    int64_t x_size = x[i], y_size = y[j];
    while (x_size != y_size) {
      if (x_size < y_size) {
        x_size *= x[block.x_end++];
      } else {
        y_size *= y[block.y_end++];
      }
    }
    blocks.push_back(block);
    i = block.x_end;
    j = block.y_end;
  }
  return blocks;  // the remaining dimensions have size 1
}

// A dimension whose split gives shards that are each contiguous in the block.
struct SplittableDim {
  int dim;
  int64_t inner;  // elements of the block for each index of the dimension
};

// Returns the splittable dimensions of a block: its first one, and each following one as long as
// all dimensions before it have size 1.
std::vector<SplittableDim> SplittableDims(const Shape& shape, int begin, int end) {
  std::vector<SplittableDim> dims;
  for (int d = begin; d < end; ++d) {
    dims.push_back({d, std::accumulate(shape.begin() + d + 1, shape.begin() + end, int64_t{1},
                                       std::multiplies<int64_t>())});
    if (shape[d] != 1) break;
  }
  return dims;
}

class ReshapeOp : public Operator {
 public:
  absl::string_view name() const override { return "reshape"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    ASSIGN_OR_RETURN(Shape shape, check.ShapeOf("shape"));
    const int64_t elements = NumElements(inputs[0].shape);
    if (NumElements(shape) != elements) {
      return check.Misfit(
          "shape", absl::StrCat("of ", elements, " elements, as ", TypeToString(inputs[0]), " is"));
    }
    return std::vector<TensorType>{{inputs[0].dtype, std::move(shape)}};
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    builder.SetInputGradient(0, Reshape(builder.output_gradient(0), builder.input(0).shape()));
    return absl::OkStatus();
  }

  OpCost Cost(const OpTypes& types) const override { return {}; }

  // In a block that both shapes have, x's first dimension split in units of u and y's first in
  // units of v have the same shards if a unit is the same run of elements. The signatures have the
  // smallest such units; both may be multiplied by the same number, as in every signature.
  // Examples: [B, T, C] -> [B*T, C]: S(0) -> S(0, T); [B, T, H*D] -> [B, T, H, D]: S(2, D) -> S(2).
  // Dimensions that are not the first of their block are interleaved by the reshape and cannot be
  // split.
  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const Shape& x = types.inputs[0].shape;
    const Shape& y = types.outputs[0].shape;
    std::vector<Signature> signatures;
    if (NumElements(x) > 0) {
      for (const Block& block : CommonBlocks(x, y)) {
        for (const SplittableDim& of_x : SplittableDims(x, block.x_begin, block.x_end)) {
          for (const SplittableDim& of_y : SplittableDims(y, block.y_begin, block.y_end)) {
            const int64_t common = std::gcd(of_x.inner, of_y.inner);
            const int64_t x_unit = of_y.inner / common, y_unit = of_x.inner / common;
            // If the whole block is one unit, there is no split, unless the dimension has one
            // element.
            const bool is_one_unit = x_unit == x[of_x.dim] && x_unit > 1;
            const bool y_has_one_element = y_unit == y[of_y.dim] && y_unit == 1;
            if (is_one_unit && !y_has_one_element) continue;
            signatures.push_back({{sbp::S(of_x.dim, x_unit)}, {sbp::S(of_y.dim, y_unit)}});
          }
        }
      }
    }
    return WithPartial(std::move(signatures), types);
  }

  Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const override {
    const Shape& shape = local.outputs[0].shape;
    return {{"shape", ShapeAttribute(shape)}};
  }

  bool is_view() const override { return true; }

  // Dimensions of x that are merged must be adjacent in memory, without gaps.
  std::optional<ViewPlacement> View(const OpTypes& types, int output,
                                    const Strides& input_strides) const override {
    const Shape& y = types.outputs[0].shape;
    if (NumElements(y) == 0) return ViewPlacement{0, RowMajorStrides(y)};
    Shape x;  // without dimensions of size 1, whose strides mean nothing
    Strides x_strides;
    for (size_t d = 0; d < input_strides.size(); ++d) {
      if (types.inputs[0].shape[d] == 1) continue;
      x.push_back(types.inputs[0].shape[d]);
      x_strides.push_back(input_strides[d]);
    }
    ViewPlacement placement{0, Strides(y.size(), 1)};
    for (const Block& block : CommonBlocks(x, y)) {
      for (int d = block.x_begin; d + 1 < block.x_end; ++d) {
        if (x_strides[d] != x_strides[d + 1] * x[d + 1]) return std::nullopt;
      }
      int64_t stride = x_strides[block.x_end - 1];
      for (int d = block.y_end - 1; d >= block.y_begin; --d) {
        placement.strides[d] = stride;
        stride *= y[d];
      }
    }
    return placement;
  }
};

}  // namespace

const Operator& ReshapeOperator() {
  static const ReshapeOp op;
  return op;
}

Tensor Reshape(Tensor x, absl::Span<const int64_t> shape) {
  std::vector<int64_t> sizes = ShapeAttribute(shape);
  const auto inferred = std::find(sizes.begin(), sizes.end(), -1);
  if (inferred != sizes.end()) {
    *inferred = 1;
    const int64_t others = NumElements(sizes), elements = NumElements(x.shape());
    // If the sizes do not divide the elements, -1 remains, which the shape rule refuses.
    *inferred = others > 0 && elements % others == 0 ? elements / others : -1;
  }
  return RecordSingleOutput(ReshapeOperator(), {x}, {{"shape", std::move(sizes)}});
}

}  // namespace tessera
