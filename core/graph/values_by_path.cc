#include "core/graph/values_by_path.h"

#include <xxhash.h>

#include <tuple>

#include "core/graph/graph.h"
#include "core/ids/table.h"

namespace tessera {

uint64_t ValuesByPath::DefaultHash(absl::string_view path) {
  return XXH3_64bits(path.data(), path.size());
}

ValueId ValuesByPath::Find(absl::string_view path, const Table<ValueId, Value>& values) const {
  for (uint64_t hash = hash_(path);; ++hash) {
    const auto it = ids_.find(hash);
    if (it == ids_.end()) return kNone;
    if (it->second != kNone && values[it->second].path == path) return it->second;
  }
}

bool ValuesByPath::Insert(absl::string_view path, ValueId id, const Table<ValueId, Value>& values) {
  uint64_t hash = hash_(path);
  for (auto [it, inserted] = ids_.try_emplace(hash, id); !inserted;
       std::tie(it, inserted) = ids_.try_emplace(++hash, id)) {
    if (it->second != kNone && values[it->second].path == path) return false;
  }
  return true;
}

void ValuesByPath::Erase(absl::string_view path, const Table<ValueId, Value>& values) {
  for (uint64_t hash = hash_(path);; ++hash) {
    const auto it = ids_.find(hash);
    if (it == ids_.end()) return;
    if (it->second == kNone || values[it->second].path != path) continue;
    it->second = kNone;
    return;
  }
}

}  // namespace tessera
