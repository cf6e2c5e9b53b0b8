#include "strategies/host/option_values.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/status/status_macros.h"
#include "core/text/human_units.h"
#include "core/text/nearest_name.h"

namespace tessera {
namespace {

bool IsChoice(const PluginOption& option) { return absl::StrContains(option.type, '|'); }

// Describes the values of a type.
std::string Expected(const PluginOption& option) {
  if (option.type == "bool") return "yes or no";
  if (option.type == "int") return "a whole number";
  if (option.type == "number") return "a number";
  if (option.type == "bytes") return "a size such as 25MiB";
  return absl::StrCat("one of ", absl::StrJoin(absl::StrSplit(option.type, '|'), ", "));
}

absl::Status DoesNotFit(const PluginOption& option, const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrCat("option ", option.name, " is '", text, "', and has to be ", Expected(option)));
}

// Returns the value in the form that plugins receive.
absl::StatusOr<std::string> ValueOf(const PluginOption& option, const std::string& text) {
  if (option.type == "text") return text;
  if (option.type == "bool") {
    const std::string lower = absl::AsciiStrToLower(text);
    bool value = false;
    if (lower == "yes" || lower == "no") return std::string(lower == "yes" ? "true" : "false");
    if (absl::SimpleAtob(text, &value)) return std::string(value ? "true" : "false");
  } else if (option.type == "int") {
    int64_t value = 0;
    if (absl::SimpleAtoi(text, &value)) return absl::StrCat(value);
  } else if (option.type == "number") {
    double value = 0;
    if (absl::SimpleAtod(text, &value) && std::isfinite(value)) return text;
  } else if (option.type == "bytes") {
    const absl::StatusOr<int64_t> bytes = ParseBytes(text);
    if (bytes.ok()) return absl::StrCat(*bytes);
  } else if (IsChoice(option)) {
    const std::vector<std::string> choices = absl::StrSplit(option.type, '|');
    if (absl::c_linear_search(choices, text)) return text;
  }
  return DoesNotFit(option, text);
}

const PluginOption* FindOption(const Plugin& plugin, absl::string_view name) {
  for (const PluginOption& option : plugin.options()) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

absl::Status NoSuchOption(const Plugin& plugin, const std::string& name) {
  std::vector<std::string> names;
  for (const PluginOption& option : plugin.options()) names.push_back(option.name);
  if (names.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("strategy ", plugin.name(), " has no options, so no '", name, "'"));
  }
  return absl::InvalidArgumentError(absl::StrCat("strategy ", plugin.name(), " has no option '",
                                                 name, "'; it has ", absl::StrJoin(names, ", "),
                                                 DidYouMean(name, names)));
}

}  // namespace

absl::Status CheckOptionType(const PluginOption& option) {
  const bool known = absl::c_linear_search(
      std::vector<std::string>{"bool", "int", "number", "bytes", "text"}, option.type);
  if (!known && !IsChoice(option)) {
    return absl::InvalidArgumentError(
        absl::StrCat("option ", option.name, " is of the unknown type '", option.type,
                     "': types are bool, int, number, bytes, text, or choices such as a|b"));
  }
  return ValueOf(option, option.default_value).status();
}

absl::StatusOr<OptionValues> ReadOptions(const Plugin& plugin,
                                         absl::Span<const std::string> settings) {
  OptionValues values;
  for (const std::string& setting : settings) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(setting, absl::MaxSplits('=', 1));
    const PluginOption* const option = FindOption(plugin, parts.first);
    if (option == nullptr) return NoSuchOption(plugin, parts.first);
    if (!absl::StrContains(setting, '=')) {
      return absl::InvalidArgumentError(absl::StrCat("strategy option '", setting,
                                                     "' has no value: write ", parts.first,
                                                     "=..., ", Expected(*option)));
    }
    ASSIGN_OR_RETURN(std::string value, ValueOf(*option, parts.second));
    if (!values.emplace(parts.first, std::move(value)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("strategy option ", parts.first, " is set twice"));
    }
  }
  for (const PluginOption& option : plugin.options()) {
    if (values.count(option.name) > 0) continue;
    ASSIGN_OR_RETURN(values[option.name], ValueOf(option, option.default_value));
  }
  return values;
}

void SetOptions(const OptionValues& values, strategy::PlanRequest& request) {
  for (const auto& [name, value] : values) {
    OptionValue& option = *request.add_options();
    option.set_key(name);
    option.set_value(value);
  }
}

std::string PluginHelp(const Plugin& plugin) {
  std::string text = absl::StrCat("Strategy ", plugin.name(), " ", plugin.version(), " (",
                                  plugin.path(), ")\n  ", plugin.summary(), "\n");
  if (plugin.options().empty()) return absl::StrCat(text, "\nIt has no options.\n");
  absl::StrAppend(&text, "\nOptions (--strategy_options=name=value,...)\n");
  std::vector<std::string> heads;
  size_t width = 0;
  for (const PluginOption& option : plugin.options()) {
    const std::string type = IsChoice(option) ? option.type : absl::AsciiStrToUpper(option.type);
    heads.push_back(absl::StrCat(option.name, "=", type));
    width = std::max(width, heads.back().size());
  }
  for (size_t i = 0; i < heads.size(); ++i) {
    const PluginOption& option = plugin.options()[i];
    absl::StrAppendFormat(
        &text, "  %-*s  %s%s\n", static_cast<int>(width), heads[i], option.help,
        option.default_value.empty() ? "" : absl::StrCat(" (default ", option.default_value, ")"));
  }
  return text;
}

}  // namespace tessera
