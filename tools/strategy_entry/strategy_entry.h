// An entry of --strategies: a strategy plugin with options or a Plan, and settings of its run.
#ifndef TESSERA_TOOLS_STRATEGY_ENTRY_STRATEGY_ENTRY_H_
#define TESSERA_TOOLS_STRATEGY_ENTRY_STRATEGY_ENTRY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tools/train/flags/flags.h"

namespace tessera {

struct StrategyEntry {
  std::string label;                 // in the table; differs from the others
  std::string name;                  // of a plugin or a Plan, or a path
  std::vector<std::string> options;  // "name=value"
  // Its memory limit lies between the peaks of the first two entries (default_strategies.h).
  bool limit_between = false;
};

// The flags of a run that an entry may set: "batch", "micro_batches", "recompute" and
// "memory_limit". If its strategy has an option of that name, the entry sets the option instead.
absl::Span<const absl::string_view> SettingsOfEntries();

// Parses entries of the form [LABEL=]NAME[:OPTION=VALUE...]. Without a label, the label is the
// entry itself; of a path, without its folders and the extension of a Plan. InvalidArgument names
// the entry and the fault.
absl::StatusOr<std::vector<StrategyEntry>> ParseStrategies(absl::Span<const std::string> texts);

// Returns whether an entry sets one of SettingsOfEntries, so that SetStrategy has to know the names
// of its strategy's options.
bool StatesSettings(const StrategyEntry& entry);

// Returns the names of the options of the entry's strategy, which it loads; of a Plan, none.
absl::StatusOr<std::vector<std::string>> OptionNames(const StrategyEntry& entry);

// Sets the flags of a training run (--strategy, --strategy_options, --plan, and those that the
// entry states) with which an entry makes the Plan: NAME.textproto is a Plan's file, NAME one of
// docs/plans, which come with the program, and all else is for the loader of strategies.
// `option_names` are those of OptionNames; they may be empty unless StatesSettings. InvalidArgument
// for a Plan with options, and for a setting that is stated twice.
absl::Status SetStrategy(const StrategyEntry& entry, absl::Span<const std::string> option_names,
                         CommandLine* line);

// Returns `line` with the flags that an entry sets, for a process that runs no ranks.
absl::StatusOr<CommandLine> CommandLineOf(const StrategyEntry& entry, CommandLine line);

// Returns the status with "LABEL: " before its message (WithMessage).
absl::Status NamedStatus(const std::string& label, const absl::Status& status);

}  // namespace tessera

#endif  // TESSERA_TOOLS_STRATEGY_ENTRY_STRATEGY_ENTRY_H_
