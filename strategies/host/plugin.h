// A strategy plugin: a dynamic library that exports `tessera_strategy` (strategies/api/strategy.h).
#ifndef TESSERA_STRATEGIES_HOST_PLUGIN_H_
#define TESSERA_STRATEGIES_HOST_PLUGIN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "strategies/api/strategy.h"

namespace tessera {

struct PluginOption {
  // See TesseraOption. The type is without its range.
  std::string name, type, default_value, help;
  std::string minimum = "", maximum = "";  // bounds, as users write a value; "": none
};

// Thread safety: immutable after construction. Plugins are never unloaded.
class Plugin {
 public:
  // Loads the library at `path`, after an examination of the file (inspect_plugin.h), whose errors
  // it returns. InvalidArgument, in one line, also if the library describes itself in a malformed
  // way. It is first loaded in another process, so a plugin that ends the process that loads it is
  // an error too. Unavailable if no process can be started.
  static absl::StatusOr<Plugin> Load(const std::string& path);
  // Makes a plugin from a table without a library, for tests. `path` appears in messages.
  static absl::StatusOr<Plugin> FromTable(const TesseraStrategy* table, const std::string& path);

  const std::string& path() const { return path_; }
  // The file that was loaded: `path`, absolute and without links. "" for a table.
  const std::string& real_path() const { return real_path_; }
  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  const std::string& summary() const { return summary_; }
  absl::Span<const PluginOption> options() const { return options_; }
  absl::Span<const std::string> passes() const { return passes_; }
  const TesseraStrategy& table() const { return *table_; }

 private:
  Plugin() = default;
  static absl::StatusOr<Plugin> LoadHere(const std::string& path, const std::string& real_path);

  std::string path_, real_path_, name_, version_, summary_;
  std::vector<PluginOption> options_;
  std::vector<std::string> passes_;
  const TesseraStrategy* table_ = nullptr;
};

// Returns the line that tells the user from where a library was loaded: "strategy mine 1.0 is
// loaded from /home/ada/mine.so".
std::string OriginOf(const Plugin& plugin);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_PLUGIN_H_
