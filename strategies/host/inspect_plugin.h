// Examines the file of a strategy plugin before it is loaded.
//
// Loading a library runs its code, so a file that is no plugin, or that others can change, must be
// refused before. Nothing of the file is executed here, and it may have any contents.
#ifndef TESSERA_STRATEGIES_HOST_INSPECT_PLUGIN_H_
#define TESSERA_STRATEGIES_HOST_INSPECT_PLUGIN_H_

#include <string>

#include "absl/status/statusor.h"

namespace tessera {

// Returns the path of the library without links, which is the one to load: a link may lead
// elsewhere later. Errors are one line that names `path`, the fault and the remedy:
//   - FailedPrecondition if someone else could change it (core/posix/trusted_path.h);
//   - InvalidArgument if it is no library for this machine, does not export `tessera_strategy`, or
//     lacks the note of strategies/api/strategy.h, or if the note has another major version;
//   - NotFound if it does not exist, Unavailable if this process can open no more files.
// Thread-safe.
absl::StatusOr<std::string> InspectPlugin(const std::string& path);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_INSPECT_PLUGIN_H_
