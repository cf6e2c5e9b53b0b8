// The positions of the operands of attention and attention_grad.
#ifndef TESSERA_CORE_OPS_ATTENTION_H_
#define TESSERA_CORE_OPS_ATTENTION_H_

namespace tessera {

struct AttentionInput {
  enum : int { kQ, kK, kV };
};

struct AttentionOutput {
  enum : int { kO, kLse };
};

struct AttentionGradInput {
  enum : int { kDo, kQ, kK, kV, kO, kLse };
};

struct AttentionGradOutput {
  enum : int { kDq, kDk, kDv };
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_ATTENTION_H_
