// Finds the plugin of a strategy.
#ifndef TESSERA_STRATEGIES_HOST_FIND_PLUGIN_H_
#define TESSERA_STRATEGIES_HOST_FIND_PLUGIN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tessera {

// The strategies that come with Tessera, the default one first.
absl::Span<const absl::string_view> BundledStrategies();

struct PluginFile {
  std::string path;
  bool comes_with_program = false;  // and not from a folder that the user names
};

// Returns the file of a strategy as the user writes it, in --strategy and in other arguments of
// programs: a path (with a "/", or ending in ".so"), or a name. NAME.so is searched for in the
// folders of the variable TESSERA_STRATEGY_PATH, with ":" between them, and then among the files of
// the program (core/posix/program_files.h). NotFound lists the searched folders.
absl::StatusOr<PluginFile> FindPlugin(const std::string& strategy);

// Returns the file of a plugin that a Plan names. The Plan may be of someone else, so it may choose
// among the plugins that the user has installed, and not where they lie: InvalidArgument for
// everything but a plain name (core/text/plain_name.h). Searches as FindPlugin does.
absl::StatusOr<PluginFile> FindPluginOfPlan(const std::string& name);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_FIND_PLUGIN_H_
