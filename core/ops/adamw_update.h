// The positions of the operands of adamw_update.
#ifndef TESSERA_CORE_OPS_ADAMW_UPDATE_H_
#define TESSERA_CORE_OPS_ADAMW_UPDATE_H_

namespace tessera {

struct AdamwInput {
  enum : int { kParameter, kGradient, kM, kV, kLr, kScale, kStep, kPredicate };
};

struct AdamwOutput {
  enum : int { kParameter, kM, kV };
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_ADAMW_UPDATE_H_
