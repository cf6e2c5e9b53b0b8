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

// Returns the text with `type` ("type.googleapis.com/tessera.GptConfig") inserted into its `model`
// if that names no type. No line gets another number. A text that is not in protobuf's text form is
// not reported here: protobuf's parser will reject it. Thread safety: a pure function.
std::string WithModelType(absl::string_view text, absl::string_view type);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CONFIG_MODEL_TYPE_H_
