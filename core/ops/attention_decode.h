// The positions of the operands of attention_decode.
#ifndef TESSERA_CORE_OPS_ATTENTION_DECODE_H_
#define TESSERA_CORE_OPS_ATTENTION_DECODE_H_

namespace tessera {

struct AttentionDecodeInput {
  enum : int { kQ, kK, kV, kKCache, kVCache, kPosition };
};

struct AttentionDecodeOutput {
  enum : int { kO, kKCache, kVCache };
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_ATTENTION_DECODE_H_
