// A strict reader of the JSON in checkpoints, over nlohmann's parser: a key may occur in an object
// only once, nesting is bounded, and errors are one line. Memory is proportional to the text.
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
#include "core/text/quote.h"  // IWYU pragma: export

namespace tessera {

// Returns DataLoss, with the position, for a text that is not valid.
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text);

// Return a member of an object. They return DataLoss if `object` is not an object, has no such
// member, or the member has another type. Integers and sizes of a shape must be in [0, 2^63).
absl::StatusOr<std::string> StringMember(const nlohmann::json& object, const char* key);
absl::StatusOr<int64_t> IntegerMember(const nlohmann::json& object, const char* key);
absl::StatusOr<Shape> ShapeMember(const nlohmann::json& object, const char* key);
// Returns the integers of a list. `key` is its name for the error.
absl::StatusOr<Shape> IntegersOf(const nlohmann::json& list, const char* key);
// Returns the address of the member, which is valid as long as `object`.
absl::StatusOr<const nlohmann::json*> ArrayMember(const nlohmann::json& object, const char* key);

// Returns NumBytes, or DataLoss if that does not fit into 63 bits.
absl::StatusOr<int64_t> CheckedNumBytes(const TensorType& type);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_STRICT_JSON_H_
