// Arenas in memory that the ranks of a World share.
#ifndef TESSERA_CORE_RUNTIME_WORLD_MEMORY_H_
#define TESSERA_CORE_RUNTIME_WORLD_MEMORY_H_

#include "collectives/world.h"
#include "core/kernels/interface/device.h"
#include "core/runtime/engine.h"

namespace tessera {

// Returns an allocator that takes shared arenas from `world`, in whose memory collectives work in
// place, and all other arenas from `device`. Both must outlive the arenas. All ranks must allocate
// and free shared arenas in the same order. A shared arena is guarded only if the world's memory
// is.
ArenaAllocator ArenasOf(comm::World* world, Device* device);

}  // namespace tessera

#endif  // TESSERA_CORE_RUNTIME_WORLD_MEMORY_H_
