// A plugin that ends the process that loads it.
#include <cstdlib>

extern "C" __attribute__((visibility("default"))) const void* tessera_strategy() { std::abort(); }
