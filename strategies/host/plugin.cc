#include "strategies/host/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/posix/child_process.h"
#include "core/status/status_macros.h"
#include "core/text/plain_name.h"
#include "strategies/host/inspect_plugin.h"
#include "strategies/host/option_values.h"
#include "strategies/host/plugin_errors.h"

namespace tessera {
namespace {

// Bounds on a plugin's description of itself. Beyond them the table counts as malformed.
constexpr size_t kMaxTextBytes = 4096;
constexpr size_t kMaxListed = 1000;

// The reports of a process that tries to load a plugin.
constexpr char kLoads = 'l', kFails = 'f';
constexpr std::chrono::seconds kLoadingLimit{60};

// The sizes of the tables in version 2.0, which a size of 0 stands for.
constexpr size_t kFirstVersionSize =
    offsetof(TesseraStrategy, run_pass) + sizeof(TesseraStrategyFunction);
constexpr size_t kFirstVersionOptionSize = offsetof(TesseraOption, help) + sizeof(const char*);

// Reads a text of the plugin: one line of printable characters.
absl::StatusOr<std::string> TextOf(const char* text, absl::string_view what,
                                   const std::string& path) {
  if (text == nullptr) return MalformedPlugin(path, absl::StrCat("its ", what, " is null"));
  const size_t size = strnlen(text, kMaxTextBytes + 1);
  const absl::string_view view(text, size);
  const bool printable = std::none_of(view.begin(), view.end(), absl::ascii_iscntrl);
  if (size <= kMaxTextBytes && printable) return std::string(view);
  return MalformedPlugin(path, absl::StrCat("its ", what, " is not one line of at most ",
                                            kMaxTextBytes, " characters"));
}

// Reads a name of the plugin: a text of lower case letters, digits and underscores.
absl::StatusOr<std::string> NameOf(const char* text, absl::string_view what,
                                   const std::string& path) {
  absl::StatusOr<std::string> name = TextOf(text, what, path);
  if (!name.ok() || IsPlainName(*name)) return name;
  return MalformedPlugin(path,
                         absl::StrCat("its ", what, " is '", *name,
                                      "': names have lower case letters, digits and underscores"));
}

// Reads a text that may be null, which stands for `default_text`.
absl::StatusOr<std::string> TextOr(const char* text, absl::string_view default_text,
                                   absl::string_view what, const std::string& path) {
  return text == nullptr ? std::string(default_text) : TextOf(text, what, path);
}

// Reads an option's description, and checks its type and default.
absl::StatusOr<PluginOption> OptionOf(const TesseraOption* option, const std::string& path) {
  if (option == nullptr ||
      (option->struct_size != 0 && option->struct_size < kFirstVersionOptionSize)) {
    return MalformedPlugin(path,
                           "an option is null or smaller than version 2.0 of the interface has it");
  }
  PluginOption read;
  ASSIGN_OR_RETURN(read.name, NameOf(option->name, "option's name", path));
  ASSIGN_OR_RETURN(const std::string type, TextOr(option->type, "text", "option's type", path));
  absl::Status fits = SetOptionType(type, read);
  if (!fits.ok()) return MalformedPlugin(path, fits.message());
  ASSIGN_OR_RETURN(read.default_value, TextOr(option->default_value, DefaultOfType(read.type),
                                              "option's default", path));
  ASSIGN_OR_RETURN(read.help, TextOr(option->help, "", "option's help", path));
  fits = CheckDefault(read);
  if (!fits.ok()) return MalformedPlugin(path, fits.message());
  return read;
}

// Checks that the interface's version and the size of the table are those of a plugin that this
// host can call.
absl::Status CheckVersion(const TesseraStrategy& table, const std::string& path) {
  const size_t size = table.struct_size == 0 ? kFirstVersionSize : table.struct_size;
  // The version comes first in every major version, so it can be read before anything else.
  if (size >= offsetof(TesseraStrategy, state)) {
    const int32_t major = table.needs_major == 0 ? TESSERA_STRATEGY_MAJOR : table.needs_major;
    if (major != TESSERA_STRATEGY_MAJOR) {
      return PluginOfOtherVersion(path, major, table.needs_minor);
    }
    if (table.needs_minor > TESSERA_STRATEGY_MINOR) {
      return PluginNeedsNewerVersion(path, major, table.needs_minor);
    }
  }
  if (size >= kFirstVersionSize) return absl::OkStatus();
  return MalformedPlugin(
      path, absl::StrCat("its table has ", size, " bytes, and that of version 2.0 has ",
                         kFirstVersionSize));
}

// Returns the dynamic loader's last error, in one line.
std::string LoaderError() {
  const char* const error = dlerror();
  return error == nullptr ? "no reason is known" : absl::StrReplaceAll(error, {{"\n", " "}});
}

}  // namespace

absl::StatusOr<Plugin> Plugin::FromTable(const TesseraStrategy* table, const std::string& path) {
  if (table == nullptr) return MalformedPlugin(path, "tessera_strategy returned null");
  RETURN_IF_ERROR(CheckVersion(*table, path));
  Plugin plugin;
  plugin.path_ = path;
  plugin.table_ = table;
  ASSIGN_OR_RETURN(plugin.name_, NameOf(table->name, "name", path));
  ASSIGN_OR_RETURN(plugin.version_, TextOf(table->version, "version", path));
  ASSIGN_OR_RETURN(plugin.summary_, TextOr(table->summary, "", "summary", path));
  if (table->make_plan == nullptr) return MalformedPlugin(path, "it has no function `make_plan`");
  if (table->pass_count > 0 && table->run_pass == nullptr) {
    return MalformedPlugin(path, "it has passes, and no function `run_pass`");
  }
  if (table->option_count > kMaxListed || table->pass_count > kMaxListed ||
      (table->option_count > 0 && table->options == nullptr) ||
      (table->pass_count > 0 && table->pass_names == nullptr)) {
    return MalformedPlugin(
        path, absl::StrCat("it lists options or passes that are null, or more than ", kMaxListed,
                           " of them"));
  }
  for (size_t i = 0; i < table->option_count; ++i) {
    ASSIGN_OR_RETURN(PluginOption option, OptionOf(table->options[i], path));
    for (const PluginOption& other : plugin.options_) {
      if (other.name == option.name) {
        return MalformedPlugin(path, absl::StrCat("it declares option '", option.name, "' twice"));
      }
    }
    plugin.options_.push_back(std::move(option));
  }
  for (size_t i = 0; i < table->pass_count; ++i) {
    ASSIGN_OR_RETURN(std::string pass, NameOf(table->pass_names[i], "pass's name", path));
    plugin.passes_.push_back(std::move(pass));
  }
  return plugin;
}

absl::StatusOr<Plugin> Plugin::LoadHere(const std::string& path, const std::string& real_path) {
  dlerror();
  // RTLD_LOCAL: other plugins cannot see the symbols of this one.
  void* const library = dlopen(real_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot load the strategy plugin ", path, ": ", LoaderError()));
  }
  void* const symbol = dlsym(library, TESSERA_STRATEGY_SYMBOL);
  if (symbol == nullptr) {
    return MalformedPlugin(path,
                           absl::StrCat("it does not export `", TESSERA_STRATEGY_SYMBOL,
                                        "`: strategies/api/strategy.h says what a plugin has"));
  }
  const TesseraStrategy* table = nullptr;
  try {
    table = reinterpret_cast<TesseraStrategyEntry>(symbol)();
  } catch (const std::exception& error) {
    return MalformedPlugin(path,
                           absl::StrCat("tessera_strategy threw an exception: ", error.what()));
  } catch (...) {
    return MalformedPlugin(path, "tessera_strategy threw an exception");
  }
  absl::StatusOr<Plugin> plugin = FromTable(table, path);
  if (plugin.ok()) plugin->real_path_ = real_path;
  return plugin;
}

absl::StatusOr<Plugin> Plugin::Load(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string real_path, InspectPlugin(path));
  const absl::StatusOr<std::unique_ptr<ChildProcess>> trial =
      ChildProcess::Start([&](ChildProcess::Parent& parent) {
        parent.Send(LoadHere(path, real_path).ok() ? kLoads : kFails, "");
      });
  if (!trial.ok()) {
    return absl::UnavailableError(
        absl::StrCat("strategy plugin ", path, ": ", trial.status().message()));
  }
  ChildProcess::Message message;
  switch ((*trial)->Receive(ChildProcess::Clock::now() + kLoadingLimit, &message)) {
    case ChildProcess::Event::kMessage:
      break;  // an error is found again
    case ChildProcess::Event::kEnd:
      return MalformedPlugin(path, absl::StrCat("loading it ends the process: ", (*trial)->End()));
    case ChildProcess::Event::kTimeOut:
      return MalformedPlugin(
          path, absl::StrCat("loading it takes longer than ", kLoadingLimit.count(), " s"));
  }
  return LoadHere(path, real_path);
}

std::string OriginOf(const Plugin& plugin) {
  return absl::StrCat("strategy ", plugin.name(), " ", plugin.version(), " is loaded from ",
                      plugin.real_path());
}

}  // namespace tessera
