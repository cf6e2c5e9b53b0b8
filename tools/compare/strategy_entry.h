// An entry of --strategies: a strategy plugin with options, or a Plan.
#ifndef TESSERA_TOOLS_COMPARE_STRATEGY_ENTRY_H_
#define TESSERA_TOOLS_COMPARE_STRATEGY_ENTRY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/train/flags/flags.h"

namespace tessera {

struct StrategyEntry {
  std::string label;                 // in the table; differs from the others
  std::string name;                  // of a plugin or a Plan, or a path
  std::vector<std::string> options;  // "name=value"
};

// Parses entries of the form [LABEL=]NAME[:OPTION=VALUE...]. Without a label, the label is the
// entry itself; of a path, without its folders and the extension of a Plan. InvalidArgument names
// the entry and the fault.
absl::StatusOr<std::vector<StrategyEntry>> ParseStrategies(absl::Span<const std::string> texts);

// Sets the flags of a training run (--strategy, --strategy_options, --plan) with which an entry
// makes the Plan: NAME.textproto is a Plan's file, NAME one of docs/plans, which come with the
// program, and all else is for the loader of strategies. InvalidArgument for a Plan with options.
absl::Status SetStrategy(const StrategyEntry& entry, CommandLine* line);

// Returns the status with "LABEL: " before its message (WithMessage).
absl::Status NamedStatus(const std::string& label, const absl::Status& status);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_STRATEGY_ENTRY_H_
