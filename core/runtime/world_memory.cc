#include "core/runtime/world_memory.h"

#include <memory>
#include <utility>

#include "core/status/status_macros.h"

namespace tessera {
namespace {

class WorldMemory : public DeviceMemory {
 public:
  WorldMemory(comm::World* world, char* data, int64_t bytes)
      : world_(*world), data_(data), bytes_(bytes) {}
  // An error can be ignored here: every later use of the world returns it again.
  ~WorldMemory() override { world_.Free(data_).IgnoreError(); }

  void* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  comm::World& world_;
  char* const data_;
  const int64_t bytes_;
};

}  // namespace

ArenaAllocator ArenasOf(comm::World* world, Device* device) {
  return [world, device](MemorySpace space, int64_t bytes,
                         bool guarded) -> absl::StatusOr<std::unique_ptr<DeviceMemory>> {
    if (space != MemorySpace::kShared) return device->Allocate(bytes, guarded);
    ASSIGN_OR_RETURN(char* const data, world->Allocate(bytes));
    return std::make_unique<WorldMemory>(world, data, bytes);
  };
}

}  // namespace tessera
