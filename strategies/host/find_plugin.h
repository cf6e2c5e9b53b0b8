// Finds the plugin of a strategy.
#ifndef TESSERA_STRATEGIES_HOST_FIND_PLUGIN_H_
#define TESSERA_STRATEGIES_HOST_FIND_PLUGIN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tessera {

// The strategies that come with Tessera, the default one first.
absl::Span<const absl::string_view> OwnStrategies();

// Returns the file of a strategy: `strategy` itself if it is a path (it has a "/" or ends in
// ".so"), else NAME.so, which is searched for in the folders of the variable TESSERA_STRATEGY_PATH
// (with
// ":" between them), among the runfiles of the program `argv0`, and beside the program. NotFound
// lists the searched paths.
absl::StatusOr<std::string> FindPlugin(const std::string& strategy, const std::string& argv0);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_FIND_PLUGIN_H_
