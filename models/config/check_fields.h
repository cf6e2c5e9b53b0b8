// Checks of the fields of a model's configuration. An error is an InvalidArgument that begins with
// the field: "model.classes: 1 is not from 2 to 1048576".
#ifndef TESSERA_MODELS_CONFIG_CHECK_FIELDS_H_
#define TESSERA_MODELS_CONFIG_CHECK_FIELDS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tessera {

// Checks that a size is from `least` to `largest`. Bounds keep every product of sizes far below
// 2^63.
absl::Status CheckSize(absl::string_view field, int64_t value, int64_t least, int64_t largest);

// Checks that a number is from 0 to below 1.
absl::Status CheckFraction(absl::string_view field, double value);

}  // namespace tessera

#endif  // TESSERA_MODELS_CONFIG_CHECK_FIELDS_H_
