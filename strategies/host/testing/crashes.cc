// A plugin that ends the process that loads it.
#include <cstdlib>

#include "strategies/api/strategy.h"

extern "C" __attribute__((visibility("default"))) const TesseraStrategy* tessera_strategy() {
  std::abort();
}
