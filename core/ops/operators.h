// Every operator by its own function, for the files of this folder: the list, and gradient rules
// that record other operators. Others call FindOperator (operator_list.h) or record through ops.h.
#ifndef TESSERA_CORE_OPS_OPERATORS_H_
#define TESSERA_CORE_OPS_OPERATORS_H_

#include "core/graph/operator.h"

namespace tessera {

// const Operator& GeluOperator(); and so on.
#define TESSERA_OPERATOR(name) const Operator& name##Operator();
#include "core/ops/operators.inc"
#undef TESSERA_OPERATOR

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_OPERATORS_H_
