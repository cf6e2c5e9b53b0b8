#include "tools/strategy_entry/strategy_entry.h"

#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/posix/program_files.h"
#include "core/status/status_macros.h"
#include "core/status/with_message.h"
#include "core/text/plain_name.h"
#include "strategies/host/find_plugin.h"
#include "strategies/host/plugin.h"
#include "tools/train/flags/flag_fields.h"

namespace tessera {
namespace {

constexpr char kPlanEnding[] = ".textproto";

absl::Status Malformed(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--strategies: '", text, "' ", why,
                                                 ": an entry is [LABEL=]NAME[:OPTION=VALUE...], "
                                                 "such as fsdp:reshard=no"));
}

absl::StatusOr<StrategyEntry> ParseEntry(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  StrategyEntry entry;
  entry.name = parts[0];
  const size_t equals = parts[0].find('=');
  if (equals != std::string::npos) {
    entry.label = parts[0].substr(0, equals);
    entry.name = parts[0].substr(equals + 1);
    if (entry.label.empty()) return Malformed(text, "has an empty label");
  } else {
    absl::string_view label = text;
    const size_t slash = parts[0].rfind('/');
    if (slash != std::string::npos) label.remove_prefix(slash + 1);
    absl::ConsumeSuffix(&label, kPlanEnding);
    entry.label = std::string(label);
  }
  if (entry.name.empty()) return Malformed(text, "names no strategy");
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t at = parts[i].find('=');
    if (at == 0 || at == std::string::npos) {
      return Malformed(text, absl::StrCat("has the option '", parts[i], "'"));
    }
    entry.options.push_back(parts[i]);
  }
  return entry;
}

// Returns the file of a Plan of docs/plans, which comes with the program; "" if there is none.
std::string FindBundledPlan(const std::string& name) {
  if (!IsPlainName(name)) return "";  // a path
  return FindProgramFile(absl::StrCat("tessera/docs/plans/", name, kPlanEnding)).value_or("");
}

// Returns the file of the entry's Plan; "" if it is a strategy.
std::string PlanOf(const StrategyEntry& entry) {
  if (absl::EndsWith(entry.name, kPlanEnding)) return entry.name;
  return absl::c_linear_search(BundledStrategies(), entry.name) ? "" : FindBundledPlan(entry.name);
}

// Returns the name of an option that has a value.
std::string NameOf(const std::string& option) { return option.substr(0, option.find('=')); }

bool IsSetting(absl::string_view name) { return absl::c_linear_search(SettingsOfEntries(), name); }

}  // namespace

absl::StatusOr<std::vector<StrategyEntry>> ParseStrategies(absl::Span<const std::string> texts) {
  std::vector<StrategyEntry> entries;
  std::set<std::string> labels;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(StrategyEntry entry, ParseEntry(text));
    if (!labels.insert(entry.label).second) {
      return Malformed(text, absl::StrCat("is the second entry with the label ", entry.label));
    }
    entries.push_back(std::move(entry));
  }
  if (!entries.empty()) return entries;
  return absl::InvalidArgumentError("--strategies is empty: name one or more, such as ddp,fsdp");
}

absl::Span<const absl::string_view> SettingsOfEntries() {
  static constexpr absl::string_view kSettings[] = {"batch", "micro_batches", "recompute",
                                                    "memory_limit"};
  return kSettings;
}

bool StatesSettings(const StrategyEntry& entry) {
  return absl::c_any_of(entry.options,
                        [](const std::string& option) { return IsSetting(NameOf(option)); });
}

absl::StatusOr<std::vector<std::string>> OptionNames(const StrategyEntry& entry) {
  std::vector<std::string> names;
  if (!PlanOf(entry).empty()) return names;
  ASSIGN_OR_RETURN(const PluginFile file, FindPlugin(entry.name));
  ASSIGN_OR_RETURN(const Plugin plugin, Plugin::Load(file.path));
  for (const PluginOption& option : plugin.options()) names.push_back(option.name);
  return names;
}

absl::Status SetStrategy(const StrategyEntry& entry, absl::Span<const std::string> option_names,
                         CommandLine* line) {
  std::vector<std::string> options;
  std::set<std::string> stated;
  for (const std::string& option : entry.options) {
    const std::string name = NameOf(option);
    if (!IsSetting(name) || absl::c_linear_search(option_names, name)) {
      options.push_back(option);
      continue;
    }
    if (!stated.insert(name).second)
      return Malformed(entry.label, absl::StrCat("sets ", name, " twice"));
    line->settings.push_back({"--strategies", FieldOfFlag(name), option.substr(name.size() + 1)});
  }
  line->plan = PlanOf(entry);
  if (line->plan.empty()) {
    line->strategy = entry.name;
    line->strategy_options = std::move(options);
    return absl::OkStatus();
  }
  if (options.empty()) return absl::OkStatus();
  return Malformed(entry.label,
                   absl::StrCat("is a Plan, which has no option '", NameOf(options.front()),
                                "', only the settings ", absl::StrJoin(SettingsOfEntries(), ", ")));
}

absl::StatusOr<CommandLine> CommandLineOf(const StrategyEntry& entry, CommandLine line) {
  std::vector<std::string> names;
  if (StatesSettings(entry)) {
    ASSIGN_OR_RETURN(names, OptionNames(entry));
  }
  RETURN_IF_ERROR(SetStrategy(entry, names, &line));
  return line;
}

absl::Status NamedStatus(const std::string& label, const absl::Status& status) {
  return WithMessage(status, absl::StrCat(label, ": ", status.message()));
}

}  // namespace tessera
