// The text of --help.
#ifndef TESSERA_TOOLS_TRAIN_FLAGS_HELP_H_
#define TESSERA_TOOLS_TRAIN_FLAGS_HELP_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/model/model.h"

namespace tessera {

// Returns examples, the flags in groups with their defaults, and the meaning of a step line.
// `program` is the command that starts the tool.
std::string HelpText(absl::string_view program, const ModelDefinition& model);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_FLAGS_HELP_H_
