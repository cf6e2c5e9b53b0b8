// The positions of the operands of reduce_max_grad.
#ifndef TESSERA_CORE_OPS_REDUCE_MAX_H_
#define TESSERA_CORE_OPS_REDUCE_MAX_H_

namespace tessera {

struct ReduceMaxGradInput {
  enum : int { kDy, kX, kY };
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_REDUCE_MAX_H_
