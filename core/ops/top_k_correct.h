// The positions of the operands of top_k_correct.
#ifndef TESSERA_CORE_OPS_TOP_K_CORRECT_H_
#define TESSERA_CORE_OPS_TOP_K_CORRECT_H_

namespace tessera {

struct TopKCorrectInput {
  enum : int { kLogits, kTargets };
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_TOP_K_CORRECT_H_
