#include "models/ratings/ratings.h"
#include "tools/train/train_main.h"

int main(int argc, char** argv) {
  return tessera::TrainMain(argc, argv, tessera::RatingsDefinition());
}
