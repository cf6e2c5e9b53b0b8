// The positions of the operands of matmul.
#ifndef TESSERA_CORE_OPS_MATMUL_H_
#define TESSERA_CORE_OPS_MATMUL_H_

#include "core/graph/attributes.h"

namespace tessera {

// In a request with epilogues, their extra inputs follow.
struct MatMulInput {
  enum : int { kA, kB, kCount };
};

// Whether leading dimensions are summed over, as K is: the gradient of a matrix that all of them
// share. Then a is [..., K, M], b is [..., K, N], and y [M, N].
inline bool ContractsLeading(const Attributes& attributes) {
  return attributes.Has("contract_leading") && attributes.GetBool("contract_leading");
}

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_MATMUL_H_
