// A plugin with the note of version 9.4 of the interface. It must not be loaded.
#include <cstdint>
#include <cstdlib>

namespace {

struct Note {
  uint32_t name_size, value_size, type;
  char name[8];
  int32_t major, minor;
};
[[gnu::used, gnu::aligned(4), gnu::section(".note.tessera.strategy")]] const Note kNote = {
    8, 8, 1, "Tessera", 9, 4};

__attribute__((constructor)) void EndProcess() { std::abort(); }

}  // namespace

extern "C" __attribute__((visibility("default"))) const void* tessera_strategy() { std::abort(); }
