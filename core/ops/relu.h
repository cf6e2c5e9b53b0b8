// The positions of the operands of relu_grad.
#ifndef TESSERA_CORE_OPS_RELU_H_
#define TESSERA_CORE_OPS_RELU_H_

namespace tessera {

struct ReluGradInput {
  enum : int { kDy, kY };
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_RELU_H_
