// The fields of a row of tokens: what a language model reads, and data of tokens provide.
#ifndef TESSERA_CORE_MODEL_TOKEN_FIELDS_H_
#define TESSERA_CORE_MODEL_TOKEN_FIELDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/batch_field.h"
#include "core/ops/ops.h"

namespace tessera {

inline constexpr char kTokens[] = "tokens";
inline constexpr char kTargets[] = "targets";

// "tokens" and "targets", i32 [sequence], below `limit`: the target of a position is the token that
// follows it, or kIgnoreIndex.
inline std::vector<BatchField> TokenFields(int64_t sequence, int64_t limit,
                                           const std::string& limited_by = "") {
  const TensorType type = {DType::kI32, {sequence}};
  return {{kTokens, type, limit, 0, limited_by}, {kTargets, type, limit, kIgnoreIndex, limited_by}};
}

}  // namespace tessera

#endif  // TESSERA_CORE_MODEL_TOKEN_FIELDS_H_
