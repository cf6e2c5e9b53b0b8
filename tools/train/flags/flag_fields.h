// The fields of the configuration that flags set, and the names that other programs have for them.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_TRAIN_FLAGS_FLAG_FIELDS_H_
#define TESSERA_TOOLS_TRAIN_FLAGS_FLAG_FIELDS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/model/model.h"

namespace tessera {

// Returns the path of the configuration's field that a flag sets, "" if it sets none.
std::string FieldOfFlag(absl::string_view flag);

// Returns the remedy for a name that is no flag, "" if there is none: a flag that does nearly the
// same, or the field of the configuration that `model` has by this name.
std::string FieldHint(absl::string_view name, const ModelDefinition& model);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_FLAGS_FLAG_FIELDS_H_
