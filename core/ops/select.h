// The positions of the operands of select.
#ifndef TESSERA_CORE_OPS_SELECT_H_
#define TESSERA_CORE_OPS_SELECT_H_

namespace tessera {

struct SelectInput {
  enum : int { kCondition, kA, kB };
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_SELECT_H_
