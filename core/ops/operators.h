// Declares one function for every operator, for use in this folder only: by the list, and by
// gradient rules that record other operators. Other code calls FindOperator (operator_list.h) or
// records through ops.h.
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
