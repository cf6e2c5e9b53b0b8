// The complete list of operators. Tests iterate over it, and each entry has a kernel on every
// backend, except views and assemblies, which need none.
#ifndef TESSERA_CORE_OPS_OPERATOR_LIST_H_
#define TESSERA_CORE_OPS_OPERATOR_LIST_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/operator.h"

namespace tessera {

absl::Span<const Operator* const> AllOperators();

// Returns nullptr if there is no operator of that name.
const Operator* FindOperator(absl::string_view name);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_OPERATOR_LIST_H_
