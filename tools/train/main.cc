// The program that `tessera_train` makes for each model.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/posix/signals.h"
#include "core/train/model.h"
#include "tools/train/interrupt.h"
#include "tools/train/launch_ranks.h"
#include "tools/train/train_main.h"

int main(int argc, char** argv) {
  if (const std::optional<int> code = tessera::LaunchRanks(argc, argv, tessera::ThisModel())) {
    return *code;
  }
  const std::unique_ptr<tessera::SignalThread> signals = tessera::TakeInterrupts();
  tessera::LetWritesFail();
  return tessera::TrainMain(argv[0], std::vector<std::string>(argv + 1, argv + argc),
                            tessera::ThisModel());
}
