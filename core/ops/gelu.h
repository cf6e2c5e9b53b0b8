// The positions of the operands of gelu_grad.
#ifndef TESSERA_CORE_OPS_GELU_H_
#define TESSERA_CORE_OPS_GELU_H_

namespace tessera {

struct GeluGradInput {
  enum : int { kDy, kX };
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_GELU_H_
