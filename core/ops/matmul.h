// The positions of the operands of matmul.
#ifndef TESSERA_CORE_OPS_MATMUL_H_
#define TESSERA_CORE_OPS_MATMUL_H_

namespace tessera {

// In a request with epilogues, their extra inputs follow.
struct MatMulInput {
  enum : int { kA, kB, kCount };
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_MATMUL_H_
