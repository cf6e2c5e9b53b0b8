// The value of --mode: what the training tool does with a model.
#ifndef TESSERA_TOOLS_TRAIN_FLAGS_MODE_H_
#define TESSERA_TOOLS_TRAIN_FLAGS_MODE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

enum class Mode { kTrain, kEvaluate, kPredict, kSample };

// The name of a mode, as in --mode.
std::string ModeName(Mode mode);

// Mode as the type of a flag.
bool AbslParseFlag(absl::string_view text, Mode* mode, std::string* error);
std::string AbslUnparseFlag(Mode mode);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_FLAGS_MODE_H_
