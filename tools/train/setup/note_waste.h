// Notes of settings that work, and cost time or memory for nothing.
#ifndef TESSERA_TOOLS_TRAIN_SETUP_NOTE_WASTE_H_
#define TESSERA_TOOLS_TRAIN_SETUP_NOTE_WASTE_H_

#include "tools/train/flags/flags.h"
#include "tools/train/setup/setup.h"

namespace tessera {

// Adds the notes to those of a setup that is compiled.
void NoteWaste(const CommandLine& line, Setup* setup);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SETUP_NOTE_WASTE_H_
