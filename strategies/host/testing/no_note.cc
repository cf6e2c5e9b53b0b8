// A plugin of version 1.1 of the interface, which had no note. It must not be loaded.
#include <cstdlib>

__attribute__((constructor)) static void EndProcess() { std::abort(); }

extern "C" __attribute__((visibility("default"))) const void* tessera_strategy() { std::abort(); }
