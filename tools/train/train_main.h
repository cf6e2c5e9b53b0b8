// The training tool of a model.
#ifndef TESSERA_TOOLS_TRAIN_TRAIN_MAIN_H_
#define TESSERA_TOOLS_TRAIN_TRAIN_MAIN_H_

#include "core/model/model.h"

namespace tessera {

// The main function of a program that trains this model: see RankMain (rank_program.h).
int TrainMain(int argc, char** argv, const ModelDefinition& definition);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_TRAIN_MAIN_H_
