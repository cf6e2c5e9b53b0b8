// The values of a plugin's options, as a user writes them.
//
// Thread safety: pure functions.
#ifndef TESSERA_STRATEGIES_HOST_OPTION_VALUES_H_
#define TESSERA_STRATEGIES_HOST_OPTION_VALUES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/proto/strategy.pb.h"
#include "strategies/host/plugin.h"

namespace tessera {

using OptionValues = std::map<std::string, std::string>;

// Sets the type and the range of an option from the text of a type, such as "int 1..8".
// InvalidArgument if the type is unknown, or has no range.
absl::Status SetOptionType(const std::string& text, PluginOption& option);

// Returns the default of options of a type that declare none.
std::string DefaultOfType(const std::string& type);

// InvalidArgument if the default or a bound of the option is no value of its type.
absl::Status CheckDefault(const PluginOption& option);

// Returns the value of every option that the plugin declares: those of `settings` ("name=value"),
// or the defaults. Bytes are plain numbers, bools "true" or "false". InvalidArgument, in one line,
// names the setting, the fault and the remedy.
absl::StatusOr<OptionValues> ReadOptions(const Plugin& plugin,
                                         absl::Span<const std::string> settings);

// Adds the values to a request.
void SetOptions(const OptionValues& values, strategy::PlanRequest& request);

// Returns the text that --help shows of a plugin: its summary, and its options as a table.
std::string PluginHelp(const Plugin& plugin);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_OPTION_VALUES_H_
