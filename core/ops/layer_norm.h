// The positions of the operands of layer_norm and layer_norm_grad.
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

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_LAYER_NORM_H_
