// The program that `tessera_train` makes for each model.
#include <string>
#include <vector>

#include "core/train/model.h"
#include "tools/train/train_main.h"

int main(int argc, char** argv) {
  return tessera::TrainMain(argv[0], std::vector<std::string>(argv + 1, argv + argc),
                            tessera::ThisModel());
}
