// The positions of the operands of embedding and embedding_grad.
#ifndef TESSERA_CORE_OPS_EMBEDDING_H_
#define TESSERA_CORE_OPS_EMBEDDING_H_

namespace tessera {

struct EmbeddingInput {
  enum : int { kTable, kIds };
};

struct EmbeddingGradInput {
  enum : int { kDy, kIds };
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_EMBEDDING_H_
