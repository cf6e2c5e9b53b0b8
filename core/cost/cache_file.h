// A small JSON file in which a program keeps what it has measured, for later runs. It may be
// deleted at any time.
//
// Thread safety: every function may be called from any thread, and by several processes.
#ifndef TESSERA_CORE_COST_CACHE_FILE_H_
#define TESSERA_CORE_COST_CACHE_FILE_H_

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

// The file's values, in the order in which they are written.
using CacheJson = nlohmann::ordered_json;

// Returns the file of this user: $XDG_CACHE_HOME/tessera/`name`, where $XDG_CACHE_HOME is ~/.cache
// unless set. Returns "" if there is no home folder.
std::string CachePath(absl::string_view name);

// How much a file may hold. A larger or deeper one is damaged or forged.
struct CacheLimits {
  size_t bytes = size_t{1} << 20;
  int depth = 2;  // of objects in objects
};

// Reads the file: a JSON object. Returns an empty one if there is no file. InvalidArgument, in one
// line without the path, if it is none of ours: too large, malformed, or not a regular file;
// another error if it cannot be read.
absl::StatusOr<CacheJson> ReadCacheFile(const std::string& path, const CacheLimits& limits);

// Changes the file by `change`, which gets its values, or an empty object if there is none or
// another thing of that name. What is written is a new file, which replaces the former one, so that
// no reader sees half of it. One process does so at a time; others wait for it. Returns why the
// file could not be written, in one line with its path; then it is as it was.
absl::Status UpdateCacheFile(const std::string& path, const CacheLimits& limits,
                             const std::function<void(CacheJson& values)>& change);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_CACHE_FILE_H_
