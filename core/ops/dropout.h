// The positions of the operands of dropout.
#ifndef TESSERA_CORE_OPS_DROPOUT_H_
#define TESSERA_CORE_OPS_DROPOUT_H_

namespace tessera {

struct DropoutInput {
  enum : int { kX, kSeed, kStep };
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_DROPOUT_H_
