// The short form of a configuration's model, without the type that an Any needs:
//
//   model { layers: 2 }
//
// means, in a program that trains a GPT,
//
//   model { [type.googleapis.com/tessera.GptConfig] { layers: 2 } }
#ifndef TESSERA_CORE_TRAIN_CONFIG_MODEL_TYPE_H_
#define TESSERA_CORE_TRAIN_CONFIG_MODEL_TYPE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

// Returns the text with `type`, "type.googleapis.com/tessera.GptConfig", where its `model` names
// none. Lines keep their numbers. A text that is not in protobuf's text form is for its parser to
// refuse.
// Thread safety: a pure function.
std::string WithModelType(absl::string_view text, absl::string_view type);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CONFIG_MODEL_TYPE_H_
