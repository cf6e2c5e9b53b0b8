// Declares one function for every reader, for the list. Other code calls AllReaders
// (reader_list.h).
#ifndef TESSERA_CORE_TRAIN_DATA_READERS_READERS_H_
#define TESSERA_CORE_TRAIN_DATA_READERS_READERS_H_

#include "core/train/data/readers/reader.h"

namespace tessera {

// const Reader& TextReader(); and so on.
#define TESSERA_READER(name) const Reader& name##Reader();
#include "core/train/data/readers/readers.inc"
#undef TESSERA_READER

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_READERS_READERS_H_
