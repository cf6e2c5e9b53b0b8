#include "tools/command_line/command_line.h"

#include <algorithm>
#include <utility>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/text/nearest_name.h"

namespace tessera {
namespace {

const FlagEntry* FindEntry(const std::vector<FlagGroup>& groups, absl::string_view name) {
  for (const FlagGroup& group : groups) {
    for (const FlagEntry& entry : group.flags) {
      if (entry.name == name) return &entry;
      for (const char* alias : entry.aliases) {
        if (alias == name) return &entry;
      }
    }
  }
  return nullptr;
}

std::vector<std::string> FlagNames(const std::vector<FlagGroup>& groups) {
  std::vector<std::string> names = {"help", "version"};
  for (const FlagGroup& group : groups) {
    for (const FlagEntry& entry : group.flags) names.emplace_back(entry.name);
  }
  return names;
}

bool IsBool(const FlagEntry& entry) { return entry.value[0] == '\0'; }

bool IsHelp(absl::string_view argument) {
  const absl::string_view all[] = {"--help", "-help", "-h", "--h", "-?"};
  return std::find(std::begin(all), std::end(all), argument) != std::end(all);
}

bool IsVersion(absl::string_view argument) {
  return argument == "--version" || argument == "-version";
}

// Returns the fault of a value that the flag refused: "not a number". Abseil's own message names a
// C++ type, or ends with the message of the flag's own parser.
absl::string_view Expected(const FlagEntry& entry, absl::string_view error) {
  const absl::string_view value = entry.value;
  if (value.empty()) return "not true or false";
  if (value == "N") return "not a whole number that fits";
  if (value == "X") return "not a number";
  const size_t own = error.rfind("; ");
  return own == absl::string_view::npos ? "not right" : error.substr(own + 2);
}

absl::Status SetFlag(const FlagEntry& entry, absl::string_view value) {
  absl::CommandLineFlag* flag = absl::FindCommandLineFlag(entry.name);
  TESSERA_CHECK(flag != nullptr) << entry.name;
  std::string error;
  if (flag->ParseFrom(value, &error)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", entry.name, ": '", value, "' is ", Expected(entry, error)));
}

absl::Status NoSuchFlag(absl::string_view name, const std::vector<FlagGroup>& groups,
                        const FlagHint& hint) {
  const std::string remedy = hint == nullptr ? "" : hint(name);
  return absl::InvalidArgumentError(
      absl::StrCat("there is no flag '--", name, "'",
                   remedy.empty() ? DidYouMean(name, FlagNames(groups)) : remedy, " (see --help)"));
}

// Returns whether an argument that stands where a flag's value may stand is itself a flag. A
// negative number is a value, and so is a single dash.
bool IsFlag(absl::string_view argument, const std::vector<FlagGroup>& groups) {
  if (absl::StartsWith(argument, "--")) return true;
  if (!absl::ConsumePrefix(&argument, "-")) return false;
  const std::string name =
      absl::StrReplaceAll(argument.substr(0, argument.find('=')), {{"-", "_"}});
  return FindEntry(groups, name) != nullptr;
}

// Splits one argument, or two, into a flag and its value, and sets it.
absl::StatusOr<GivenFlag> TakeFlag(const std::vector<FlagGroup>& groups, const FlagHint& hint,
                                   const std::vector<std::string>& arguments, size_t* next) {
  absl::string_view text = arguments[(*next)++];
  absl::ConsumePrefix(&text, "-");
  absl::ConsumePrefix(&text, "-");
  const std::pair<absl::string_view, absl::string_view> halves =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  const bool has_value = absl::StrContains(text, '=');
  // Many programs have dashes in the names of flags.
  const std::string name = absl::StrReplaceAll(halves.first, {{"-", "_"}});
  const FlagEntry* entry = FindEntry(groups, name);
  std::string value(halves.second.data(), halves.second.size());
  absl::string_view positive = name;
  if (entry == nullptr && absl::ConsumePrefix(&positive, "no") && !has_value) {
    absl::ConsumePrefix(&positive, "_");
    entry = FindEntry(groups, positive);
    if (entry != nullptr && !IsBool(*entry)) entry = nullptr;
    value = "false";
  } else if (entry != nullptr && !has_value && IsBool(*entry)) {
    value = "true";
  } else if (entry != nullptr && !has_value) {
    if (*next == arguments.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", entry->name, " needs a value: --", entry->name, "=", entry->value));
    }
    value = arguments[(*next)++];
    if (IsFlag(value, groups)) {
      return absl::InvalidArgumentError(absl::StrCat("--", entry->name, " needs a value, and '",
                                                     value, "' is the next flag: --", entry->name,
                                                     "=", entry->value));
    }
  }
  if (entry == nullptr) return NoSuchFlag(name, groups, hint);
  RETURN_IF_ERROR(SetFlag(*entry, value));
  return GivenFlag{entry->name, value};
}

// Returns a flag and its help in two columns, 80 characters wide.
std::string HelpLines(absl::string_view left, absl::string_view right) {
  constexpr size_t kColumn = 27, kWidth = 80;
  std::string text = absl::StrFormat("  %-24s", left);
  size_t used = text.size();
  for (absl::string_view word : absl::StrSplit(right, ' ')) {
    if (used + 1 + word.size() > kWidth) {
      absl::StrAppend(&text, "\n", std::string(kColumn - 1, ' '));
      used = kColumn - 1;
    }
    absl::StrAppend(&text, " ", word);
    used += 1 + word.size();
  }
  return absl::StrCat(text, "\n");
}

}  // namespace

absl::StatusOr<ParsedFlags> ParseFlags(const std::vector<std::string>& arguments,
                                       const std::vector<FlagGroup>& groups, Rest rest,
                                       const FlagHint& hint) {
  ParsedFlags parsed;
  for (size_t next = 0; next < arguments.size();) {
    const std::string& argument = arguments[next];
    if (IsHelp(argument)) {
      parsed.help = true;
      return parsed;
    }
    if (IsVersion(argument)) {
      parsed.version = true;
      return parsed;
    }
    const bool is_flag = argument.size() > 1 && argument[0] == '-' && argument != "--";
    if (!is_flag && rest == Rest::kError) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", argument, "' is no flag; flags start with -- (see --help)"));
    }
    if (!is_flag) {
      parsed.rest.assign(arguments.begin() + next + (argument == "--" ? 1 : 0), arguments.end());
      return parsed;
    }
    ASSIGN_OR_RETURN(GivenFlag given, TakeFlag(groups, hint, arguments, &next));
    parsed.given.push_back(std::move(given));
  }
  return parsed;
}

std::string FlagsHelp(const std::vector<FlagGroup>& groups,
                      const std::map<std::string, FlagNote>& notes) {
  std::string text;
  for (const FlagGroup& group : groups) {
    absl::StrAppend(&text, "\n", group.title, "\n");
    for (const FlagEntry& entry : group.flags) {
      const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(entry.name);
      TESSERA_CHECK(flag != nullptr) << entry.name;
      const auto note = notes.find(entry.name);
      std::string help = flag->Help(), value = flag->DefaultValue();
      if (note != notes.end()) {
        help = absl::StrCat(note->second.help.value_or(help), note->second.more);
        value = note->second.default_value.value_or(value);
      }
      if (IsBool(entry) && value == "false") value.clear();
      if (!value.empty()) absl::StrAppend(&help, " (default ", value, ")");
      text +=
          HelpLines(absl::StrCat("--", entry.name, IsBool(entry) ? "" : "=", entry.value), help);
    }
  }
  return absl::StrCat(text, "\nGeneral\n", HelpLines("--help", "print this text"),
                      HelpLines("--version", "print the version of Tessera"));
}

}  // namespace tessera
