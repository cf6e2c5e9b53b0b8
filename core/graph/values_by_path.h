// Finds the values of a Graph by their paths.
#ifndef TESSERA_CORE_GRAPH_VALUES_BY_PATH_H_
#define TESSERA_CORE_GRAPH_VALUES_BY_PATH_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "core/ids/id.h"
#include "core/ids/table.h"

namespace tessera {

struct Value;
using ValueId = Id<Value>;

// An index of a Graph's values by path. It holds no paths, because those of a Graph in many
// micro-batches are most of its memory: each call gets the values. Not thread-safe.
class ValuesByPath {
 public:
  using Hash = uint64_t (*)(absl::string_view path);
  // Returns a hash of 64 bits, equal on every machine.
  static uint64_t DefaultHash(absl::string_view path);

  explicit ValuesByPath(Hash hash = DefaultHash) : hash_(hash) {}

  // Returns kNone if no value has this path.
  ValueId Find(absl::string_view path, const Table<ValueId, Value>& values) const;
  // Adds a value under `path`, which must be its path from the next call on. Returns false if
  // another value has this path.
  bool Insert(absl::string_view path, ValueId id, const Table<ValueId, Value>& values);
  // Removes the value with this path, if there is one.
  void Erase(absl::string_view path, const Table<ValueId, Value>& values);

 private:
  // By hash. Of paths with equal hashes, the later ones are at the next numbers. An erased value
  // leaves kNone, so that those after it are found.
  absl::flat_hash_map<uint64_t, ValueId> ids_;
  Hash hash_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_GRAPH_VALUES_BY_PATH_H_
