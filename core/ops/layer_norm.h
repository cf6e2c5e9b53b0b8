// The positions of the operands of layer_norm and layer_norm_grad, and of the operators that
// compute them on parts of rows.
#ifndef TESSERA_CORE_OPS_LAYER_NORM_H_
#define TESSERA_CORE_OPS_LAYER_NORM_H_

namespace tessera {

struct LayerNormInput {
  enum : int { kX, kWeight, kBias };
};

struct LayerNormOutput {
  enum : int { kY, kMean, kRstd };
};

struct LayerNormGradInput {
  enum : int { kDy, kX, kWeight, kMean, kRstd };
};

struct LayerNormGradOutput {
  enum : int { kDx, kDweight, kDbias };
};

struct LayerNormSumInput {
  enum : int { kX };
};

struct LayerNormSquaresInput {
  enum : int { kX, kMean };
};

struct LayerNormApplyInput {
  enum : int { kX, kMean, kRstd, kWeight, kBias };
};

struct LayerNormGradSumsInput {
  enum : int { kDy, kX, kWeight, kMean, kRstd };
};

struct LayerNormGradSumsOutput {
  enum : int { kChange, kNormalChange };
};

// kChange and kNormalChange are means over complete rows.
struct LayerNormGradApplyInput {
  enum : int { kDy, kX, kWeight, kMean, kRstd, kChange, kNormalChange };
};

using LayerNormGradApplyOutput = LayerNormGradOutput;

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_LAYER_NORM_H_
