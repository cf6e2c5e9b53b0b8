// The positions of the operands of max_pool and max_pool_grad.
#ifndef TESSERA_CORE_OPS_MAX_POOL_H_
#define TESSERA_CORE_OPS_MAX_POOL_H_

namespace tessera {

// The index (u8) is the position of the maximum in its window, row-major.
struct MaxPoolOutput {
  enum : int { kY, kIndex };
};

struct MaxPoolGradInput {
  enum : int { kDy, kIndex };
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_MAX_POOL_H_
