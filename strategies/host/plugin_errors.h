// Errors about the file of a strategy plugin, in one line each.
#ifndef TESSERA_STRATEGIES_HOST_PLUGIN_ERRORS_H_
#define TESSERA_STRATEGIES_HOST_PLUGIN_ERRORS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "strategies/api/strategy.h"

namespace tessera {

inline absl::Status MalformedPlugin(const std::string& path, absl::string_view fault) {
  return absl::InvalidArgumentError(absl::StrCat("strategy plugin ", path, ": ", fault));
}

// The error for a plugin of another major version of the interface.
inline absl::Status PluginOfOtherVersion(const std::string& path, int32_t major, int32_t minor) {
  return MalformedPlugin(
      path, absl::StrCat("it was built for version ", major, ".", minor,
                         " of the strategy interface, and this is version ", TESSERA_STRATEGY_MAJOR,
                         ".", TESSERA_STRATEGY_MINOR, ": build it with this version's strategy.h"));
}

// The error for a plugin that needs a later minor version.
inline absl::Status PluginNeedsNewerVersion(const std::string& path, int32_t major, int32_t minor) {
  return MalformedPlugin(
      path, absl::StrCat("it needs version ", major, ".", minor,
                         " of the strategy interface, and this is version ", TESSERA_STRATEGY_MAJOR,
                         ".", TESSERA_STRATEGY_MINOR, ": a newer Tessera can run it"));
}

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_PLUGIN_ERRORS_H_
