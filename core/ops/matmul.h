// The positions of the operands of matmul.
#ifndef TESSERA_CORE_OPS_MATMUL_H_
#define TESSERA_CORE_OPS_MATMUL_H_

#include "core/graph/attributes.h"

namespace tessera {

// In a request with epilogues, the epilogues' extra inputs follow.
struct MatMulInput {
  enum : int { kA, kB, kCount };
};

// Returns whether the product also sums over the leading dimensions, as it does over K: this is the
// gradient of a matrix that all of them share. Then a is [..., K, M], b is [..., K, N], and y is
// [M, N].
inline bool ContractsLeading(const Attributes& attributes) {
  return attributes.Has("contract_leading") && attributes.GetBool("contract_leading");
}

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_MATMUL_H_
