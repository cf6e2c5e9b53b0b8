// The positions of the operands of softmax_grad.
#ifndef TESSERA_CORE_OPS_SOFTMAX_H_
#define TESSERA_CORE_OPS_SOFTMAX_H_

namespace tessera {

struct SoftmaxGradInput {
  enum : int { kDy, kY };
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_SOFTMAX_H_
