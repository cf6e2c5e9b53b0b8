// JSON as checkpoints hold it: nlohmann's parser, but a key may stand in an object only once,
// nesting is bounded, and whatever is wrong is one line. What a text makes it allocate is
// proportional to the text.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_STRICT_JSON_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_STRICT_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/shape.h"

namespace tessera {

// DataLoss, which says where the text stops being right.
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text);

// Members of an object. DataLoss if `object` is none, has no such member or one of another kind;
// integers and sizes of a shape must be in [0, 2^63).
absl::StatusOr<std::string> StringMember(const nlohmann::json& object, const char* key);
absl::StatusOr<int64_t> IntegerMember(const nlohmann::json& object, const char* key);
absl::StatusOr<Shape> ShapeMember(const nlohmann::json& object, const char* key);
// The address of the member, which lives as long as `object`.
absl::StatusOr<const nlohmann::json*> ArrayMember(const nlohmann::json& object, const char* key);

// NumBytes, if that fits 63 bits; DataLoss if not.
absl::StatusOr<int64_t> CheckedNumBytes(const TensorType& type);

// A name for a message: in quotes, on one line, and not endless, whatever is in it.
std::string Quote(absl::string_view text);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_STRICT_JSON_H_
