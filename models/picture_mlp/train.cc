#include "models/picture_mlp/picture_mlp.h"
#include "tools/train/train_main.h"

int main(int argc, char** argv) {
  return tessera::TrainMain(argc, argv, tessera::PictureMlpDefinition());
}
