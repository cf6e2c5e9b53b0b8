// The training tool, without its main function.
#ifndef TESSERA_TOOLS_TRAIN_TRAIN_MAIN_H_
#define TESSERA_TOOLS_TRAIN_TRAIN_MAIN_H_

#include <string>
#include <vector>

#include "core/train/model.h"

namespace tessera {

// Runs the tool with these arguments (without argv[0]) and returns the process's exit code: 0; 1
// after an error, which is one line on stderr; 128 + the signal after an interrupt. Output goes to
// stdout. Call once in a process.
int TrainMain(const std::string& argv0, const std::vector<std::string>& arguments,
              const ModelDefinition& definition);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_TRAIN_MAIN_H_
