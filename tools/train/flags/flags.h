// The training tool's flags.
#ifndef TESSERA_TOOLS_TRAIN_FLAGS_FLAGS_H_
#define TESSERA_TOOLS_TRAIN_FLAGS_FLAGS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/connected_world.h"
#include "core/model/model.h"
#include "tools/command_line/command_line.h"
#include "tools/launch/flags.h"
#include "tools/train/flags/config_sources.h"
#include "tools/train/flags/mode.h"

// Declared for programs in which they have another meaning.
ABSL_DECLARE_FLAG(int64_t, steps);
ABSL_DECLARE_FLAG(std::vector<std::string>, ranks);
ABSL_DECLARE_FLAG(std::string, trace);
ABSL_DECLARE_FLAG(std::string, plan);

namespace tessera {

// A parsed command line. Paths are as the user wrote them.
struct CommandLine {
  bool help = false;
  bool version = false;
  std::string preset;
  std::string config;
  std::vector<FieldSetting> settings;  // those of --set, then those of flags
  std::string out;
  std::string resume;
  bool requeue = false;
  bool allow_changed_data = false;
  Mode mode = Mode::kTrain;
  std::string predictions;  // a file, or ""
  int64_t epochs = 0;       // the length of the run; 0: that of the field "steps"
  int64_t log_every = 0;
  std::string kernels;  // "measured" or "default"
  std::string trace;
  std::set<std::string> dump;  // "graph", "plan", "program", "memory"
  bool check_memory = false;
  bool print_config = false;
  bool plan_only = false;
  std::string plan;      // a file, or ""
  std::string strategy;  // a name, the path of a plugin, or ""; also with `help`
  std::vector<std::string> strategy_options;  // "name=value"
  double strategy_seconds = 0;                // the longest time for a strategy's planning
  std::string cluster;                        // a file, or ""
  int ranks = 0;                              // for which --plan_only plans; 0: those of this job
  comm::WorldOptions world;                   // how the ranks of a job communicate
  // With --nproc, how to start that many ranks, and the arguments of each; nproc is 0 without it.
  comm::LaunchCommandLine launch;
  // The flags that say how to start ranks, as they were given: " --nproc=2 --max_restarts=3".
  std::string launch_flags;
  // Those that a command which resumes this run needs again: " --backend=tcp --log_every=10". No
  // checkpoint holds them.
  std::string repeated_flags;
};

// Parses numbers of ranks for which to plan. InvalidArgument for one that no job has.
absl::StatusOr<std::vector<int>> ParseRankCounts(absl::Span<const std::string> texts);

// Returns whether the ranks are threads of this process (--backend=fake), which needs no launcher.
bool RanksAreThreads(const CommandLine& line);

// Returns whether this process trains, on ranks that it starts as processes.
bool StartsRankProcesses(const CommandLine& line);

// Every flag of the tool, in the order of --help.
const std::vector<FlagGroup>& TrainFlags();

// Returns whether a flag or --set sets this field of the configuration.
bool SetsField(const CommandLine& line, absl::string_view field);

// Parses all arguments as flags: --name=value, --name value, and --name or --noname for a bool.
// InvalidArgument names the flag and the remedy: the nearest flag, or the field of the
// configuration that `model` has by this name.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments,
                                             const ModelDefinition& model);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_FLAGS_FLAGS_H_
