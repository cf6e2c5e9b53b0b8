// The positions of the operands of sgd_update.
#ifndef TESSERA_CORE_OPS_SGD_UPDATE_H_
#define TESSERA_CORE_OPS_SGD_UPDATE_H_

namespace tessera {

// Without momentum, the momentum input is absent and the scalars after it move up by one position.
struct SgdInput {
  enum : int { kParameter, kGradient, kMomentum };
  static constexpr int Lr(bool has_momentum) { return has_momentum ? 3 : 2; }
  static constexpr int Scale(bool has_momentum) { return Lr(has_momentum) + 1; }
  static constexpr int Predicate(bool has_momentum) { return Lr(has_momentum) + 2; }
};

struct SgdOutput {
  enum : int { kParameter, kMomentum };
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_SGD_UPDATE_H_
