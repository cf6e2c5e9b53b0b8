#include "strategies/host/option_values.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
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

bool IsChoice(absl::string_view type) { return absl::StrContains(type, '|'); }

// Returns whether the values of the type are numbers, which may have a range.
bool HasNumbers(absl::string_view type) {
  return type == "int" || type == "number" || type == "bytes";
}

bool HasRange(const PluginOption& option) {
  return !option.minimum.empty() || !option.maximum.empty();
}

// "from 1 to 8", "of 1 or more", "of at most 8"; "" if the option has no range.
std::string RangeText(const PluginOption& option) {
  if (!HasRange(option)) return "";
  if (option.maximum.empty()) return absl::StrCat("of ", option.minimum, " or more");
  if (option.minimum.empty()) return absl::StrCat("of at most ", option.maximum);
  return absl::StrCat("from ", option.minimum, " to ", option.maximum);
}

// Describes the values of a type.
std::string Expected(const PluginOption& option) {
  const std::string range = HasRange(option) ? absl::StrCat(" ", RangeText(option)) : "";
  if (option.type == "bool") return "yes or no";
  if (option.type == "int") return absl::StrCat("a whole number", range);
  if (option.type == "number") return absl::StrCat("a number", range);
  if (option.type == "bytes") return absl::StrCat("a size such as 25MiB", range);
  return absl::StrCat("one of ", absl::StrJoin(absl::StrSplit(option.type, '|'), ", "));
}

absl::Status DoesNotFit(const PluginOption& option, const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrCat("option ", option.name, " is '", text, "', and has to be ", Expected(option)));
}

// Returns the value of a type in the form that plugins receive, whatever its range.
absl::StatusOr<std::string> ValueOfType(const PluginOption& option, const std::string& text) {
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
  } else if (IsChoice(option.type)) {
    const std::vector<std::string> choices = absl::StrSplit(option.type, '|');
    if (absl::c_linear_search(choices, text)) return text;
  }
  return DoesNotFit(option, text);
}

// Returns whether a <= b. They are values of a type of numbers, in the form that plugins receive.
bool IsAtMost(const PluginOption& option, const std::string& a, const std::string& b) {
  if (option.type == "number") {
    double x = 0, y = 0;
    return absl::SimpleAtod(a, &x) && absl::SimpleAtod(b, &y) && x <= y;
  }
  int64_t x = 0, y = 0;
  return absl::SimpleAtoi(a, &x) && absl::SimpleAtoi(b, &y) && x <= y;
}

// Returns the value of an option in the form that plugins receive; InvalidArgument if it is not of
// the option's type or outside of its range.
absl::StatusOr<std::string> ValueInRange(const PluginOption& option, const std::string& text) {
  ASSIGN_OR_RETURN(std::string value, ValueOfType(option, text));
  if (!option.minimum.empty()) {
    ASSIGN_OR_RETURN(const std::string minimum, ValueOfType(option, option.minimum));
    if (!IsAtMost(option, minimum, value)) return DoesNotFit(option, text);
  }
  if (!option.maximum.empty()) {
    ASSIGN_OR_RETURN(const std::string maximum, ValueOfType(option, option.maximum));
    if (!IsAtMost(option, value, maximum)) return DoesNotFit(option, text);
  }
  return value;
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

absl::Status SetOptionType(const std::string& text, PluginOption& option) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  option.type = IsChoice(text) ? text : parts.first;
  const bool known = HasNumbers(option.type) || option.type == "bool" || option.type == "text";
  if (!known && !IsChoice(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat("option ", option.name, " is of the unknown type '", text,
                     "': types are bool, int, number, bytes, text, or choices such as a|b"));
  }
  if (option.type == text) return absl::OkStatus();
  if (!HasNumbers(option.type)) {
    return absl::InvalidArgumentError(absl::StrCat("option ", option.name, " is of type '",
                                                   option.type, "', which has no range"));
  }
  const std::pair<std::string, std::string> bounds =
      absl::StrSplit(parts.second, absl::MaxSplits("..", 1));
  std::tie(option.minimum, option.maximum) = bounds;
  if (absl::StrContains(parts.second, "..") && HasRange(option)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("option ", option.name, " is of type '", text,
                                                 "', whose range is not written as 1.., ..8 or ",
                                                 "1..8"));
}

std::string DefaultOfType(const std::string& type) {
  if (HasNumbers(type)) return "0";
  if (type == "bool") return "no";
  return IsChoice(type) ? type.substr(0, type.find('|')) : "";
}

absl::Status CheckDefault(const PluginOption& option) {
  return ValueInRange(option, option.default_value).status();
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
    ASSIGN_OR_RETURN(std::string value, ValueInRange(*option, parts.second));
    if (!values.emplace(parts.first, std::move(value)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("strategy option ", parts.first, " is set twice"));
    }
  }
  for (const PluginOption& option : plugin.options()) {
    if (values.count(option.name) > 0) continue;
    ASSIGN_OR_RETURN(values[option.name], ValueInRange(option, option.default_value));
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
  std::string text =
      absl::StrCat("Strategy ", plugin.name(), " ", plugin.version(), " (", plugin.path(), ")\n");
  if (!plugin.summary().empty()) absl::StrAppend(&text, "  ", plugin.summary(), "\n");
  if (plugin.options().empty()) return absl::StrCat(text, "\nIt has no options.\n");
  absl::StrAppend(&text, "\nOptions (--strategy_options=name=value,...)\n");
  std::vector<std::string> heads;
  size_t width = 0;
  for (const PluginOption& option : plugin.options()) {
    const std::string type =
        IsChoice(option.type) ? option.type : absl::AsciiStrToUpper(option.type);
    heads.push_back(absl::StrCat(option.name, "=", type));
    width = std::max(width, heads.back().size());
  }
  for (size_t i = 0; i < heads.size(); ++i) {
    const PluginOption& option = plugin.options()[i];
    std::vector<std::string> notes;
    if (!option.default_value.empty()) {
      notes.push_back(absl::StrCat("default ", option.default_value));
    }
    if (HasRange(option)) notes.push_back(RangeText(option));
    absl::StrAppendFormat(&text, "  %-*s  %s%s\n", static_cast<int>(width), heads[i], option.help,
                          notes.empty() ? "" : absl::StrCat(" (", absl::StrJoin(notes, ", "), ")"));
  }
  return text;
}

}  // namespace tessera
