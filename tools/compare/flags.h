// The flags of the tool that compares strategies.
#ifndef TESSERA_TOOLS_COMPARE_FLAGS_H_
#define TESSERA_TOOLS_COMPARE_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/model.h"
#include "tools/launch/flags.h"
#include "tools/strategy_entry/strategy_entry.h"
#include "tools/train/flags/flags.h"

namespace tessera {

struct CompareCommandLine {
  bool help = false;
  bool version = false;
  const ModelDefinition* model = nullptr;
  std::vector<StrategyEntry> strategies;
  int64_t steps = 0;   // timed steps of each strategy; 0: only prices are measured
  int64_t rounds = 0;  // at most `steps`, if there are any
  bool one_at_a_time = false;
  // With train.plan_only, the ranks for which strategies are planned; none is started.
  int planned_ranks = 1;
  std::string json, report;  // files as the user wrote them, or ""
  // The flags that all strategies have as in the training tool.
  CommandLine train;
  // How to start the ranks; nproc is 0 if this process is one. The arguments are all flags but
  // those that start ranks, in each rank too.
  comm::LaunchCommandLine launch;
};

// Parses all arguments as flags. Without --nproc, a process that no launcher has started starts 2
// ranks. InvalidArgument names the flag and the remedy.
absl::StatusOr<CompareCommandLine> ParseCompareCommandLine(
    const std::vector<std::string>& arguments);

// The text that --help prints. `program` is the command that starts this program.
std::string CompareHelp(const std::string& program);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_FLAGS_H_
